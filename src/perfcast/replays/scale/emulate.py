"""Fewer ranks that stand for more: collectives with ranks that are not there take a given time.

That time is the recorded one, or the forecast for a cluster. A recorded collective waits for its last
rank; where several ranks were recorded, the shortest of their times is the collective's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

from perfcast.core.collective import COLLECTIVES, collective_operation
from perfcast.core.machine.cluster import Cluster
from perfcast.core.operation import Operation
from perfcast.cost.prices import price_communication
from perfcast.errors import TraceError
from perfcast.replays.communication.groups import GroupKey, group_of
from perfcast.replays.communication.shapes import shape_of
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram
from perfcast.traces.collectives.sizes import canonical_name
from perfcast.traces.dtype_words import dtype_bytes

#: Group, and recorded seconds, of each collective of one rank in order.
RecordedSeconds = Sequence[tuple[GroupKey, float]]


def recorded_seconds(program: ReplayProgram) -> list[tuple[GroupKey, float]]:
    """How long each collective took this rank, in order; NaN where not known."""
    return [
        (_key(program, call), call.communication_seconds) for call in program.calls if _is_communication(call)
    ]


def with_fastest(program: ReplayProgram, ranks: Sequence[RecordedSeconds]) -> ReplayProgram:
    """Collectives with the shortest time that any rank recorded for them.

    Args:
        ranks: Of every recorded rank, what ``recorded_seconds`` says; collectives of a group are matched by
            their place in it.
    """
    found: dict[tuple[GroupKey, int], float] = {}
    for mine in ranks:
        places: dict[GroupKey, int] = {}
        for key, seconds in mine:
            place = places[key] = places.get(key, -1) + 1
            if not isnan(seconds):
                found[key, place] = min(seconds, found.get((key, place), seconds))
    places = {}
    calls = []
    for call in program.calls:
        if _is_communication(call):
            key = _key(program, call)
            place = places[key] = places.get(key, -1) + 1
            call = replace(call, communication_seconds=found.get((key, place), call.communication_seconds))
        calls.append(call)
    return replace(program, calls=tuple(calls))


def emulated(
    program: ReplayProgram,
    num_ranks: int,
    cluster: Cluster | None = None,
    *,
    unknown_seconds: float | None = None,
) -> ReplayProgram:
    """The program with a duration in place of every collective that ``num_ranks`` ranks cannot carry out.

    Args:
        num_ranks: That play; they are the first of the program's ranks.
        cluster: Whose forecast the durations are; ``None`` takes the recorded ones.
        unknown_seconds: The duration of collectives whose own was not recorded; ``None``: that is an error.

    Raises:
        TraceError: A collective whose duration was not recorded, or one that no forecast knows.
        PlanError: A group that does not fit the cluster.
    """
    chosen = [
        index
        for index, call in enumerate(program.calls)
        if _is_communication(call) and _is_out_of_reach(program, call, num_ranks)
    ]
    if cluster is not None:
        seconds = _forecast(program, chosen, cluster)
    else:
        seconds = [program.calls[index].communication_seconds for index in chosen]
    by_index = dict(zip(chosen, seconds, strict=True))
    missing = next((index for index, value in by_index.items() if isnan(value)), None)
    if missing is not None and unknown_seconds is not None:
        by_index = {i: unknown_seconds if isnan(value) else value for i, value in by_index.items()}
    elif missing is not None:
        call = program.calls[missing]
        raise TraceError(
            f"{call.operator} (node {call.node_id}) reaches ranks that are not there, and the recording does "
            "not say how long it took: give its timeline, or a cluster that prices it (--emulate)"
        )
    calls = [
        replace(call, emulated_seconds=by_index[index]) if index in by_index else call
        for index, call in enumerate(program.calls)
    ]
    return replace(program, calls=tuple(calls))


def count_untimed(program: ReplayProgram) -> int:
    """Collectives that are not carried out and take no time, since none was recorded."""
    return sum(
        _is_communication(call) and call.emulated_seconds == 0.0 and isnan(call.communication_seconds)
        for call in program.calls
    )


def _is_communication(call: ReplayCall) -> bool:
    return call.kind is CallKind.COLLECTIVE and call.collective is not None


def _key(program: ReplayProgram, call: ReplayCall) -> GroupKey:
    assert call.collective is not None
    return group_of(call.collective, program.groups, program.world_size)


def _is_out_of_reach(program: ReplayProgram, call: ReplayCall, num_ranks: int) -> bool:
    """Whether some of its ranks are not there, or it is alone of several."""
    ranks = _key(program, call).ranks
    return max(ranks) >= num_ranks or program.rank not in ranks


def _forecast(program: ReplayProgram, chosen: Sequence[int], cluster: Cluster) -> list[float]:
    operations = [_operation(program, program.calls[index]) for index in chosen]
    different = list(dict.fromkeys(operations))
    if not different:
        return []
    prices = dict(zip(different, price_communication(different, cluster).seconds.tolist(), strict=True))
    return [float(prices[operation]) for operation in operations]


def _operation(program: ReplayProgram, call: ReplayCall) -> Operation:
    collective = call.collective
    assert collective is not None
    name = canonical_name(collective.name)
    if name not in COLLECTIVES:
        raise TraceError(f"'{collective.name}' (node {call.node_id}) has no price on a cluster")
    shape = shape_of(program, call)
    width = dtype_bytes(collective.dtype)
    message_bytes = max(sum(shape.received), sum(shape.sent)) * width
    return collective_operation(name, message_bytes, _key(program, call).ranks)
