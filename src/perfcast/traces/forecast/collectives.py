"""Recorded collectives on another cluster, or between another number of ranks.

A collective whose size was recorded on no member has no price there. It keeps its recorded time, changed as
the priced collectives of its rank changed together, and may take from half to twice of either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from perfcast.core.collective import COLLECTIVES, collective_operation
from perfcast.core.machine.cluster import Cluster
from perfcast.core.operation import Operation
from perfcast.cost.prices import price_communication
from perfcast.traces.collectives.sizes import TimedCollective, find_collectives
from perfcast.traces.events import Trace
from perfcast.traces.link.kernels import link_kernels, nest
from perfcast.traces.timeline.program import RankProgram
from perfcast.units import format_seconds

#: Of an interval of prices.
End = Literal["seconds", "seconds_low", "seconds_high"]
#: How much shorter or longer a collective of unknown size may be.
_UNKNOWN_FACTOR = 2.0


@dataclass(frozen=True)
class RankCollectives:
    """The collectives of one rank's works.

    Attributes:
        by_row: By their rows, with the size that any member recorded.
        unknown: Works, by their places, that are collectives whose size no rank recorded.
    """

    by_row: Mapping[int, TimedCollective]
    unknown: frozenset[int] = frozenset()


def collectives_of_ranks(
    traces: Sequence[Trace], programs: Sequence[RankProgram]
) -> tuple[RankCollectives, ...]:
    """Each rank's collectives; a size that one member did not record is that of the others."""
    by_rank = [
        {one.row: one for one in find_collectives(t, link_kernels(t.events), nest(t.events).parents)}
        for t in traces
    ]
    sizes: dict[str, int] = {}
    for program, found in zip(programs, by_rank, strict=True):
        for work in program.works:
            if work.collective and work.row in found:
                known = sizes.get(work.collective, 0)
                sizes[work.collective] = max(known, found[work.row].message_bytes)
    return tuple(_with_sizes(program, found, sizes) for program, found in zip(programs, by_rank, strict=True))


def _with_sizes(
    program: RankProgram, found: Mapping[int, TimedCollective], sizes: Mapping[str, int]
) -> RankCollectives:
    by_row, unknown = dict(found), set()
    for place, work in enumerate(program.works):
        one = by_row.get(work.row)
        if one is not None and not one.message_bytes:
            by_row[work.row] = one = replace(one, message_bytes=sizes.get(work.collective, 0))
        if one is not None and not _has_price(one):
            unknown.add(place)
    return RankCollectives(by_row, frozenset(unknown))


def _has_price(collective: TimedCollective) -> bool:
    return collective.name in COLLECTIVES and (collective.message_bytes > 0 or collective.name == "barrier")


def communication_seconds(
    program: RankProgram,
    collectives: RankCollectives,
    cluster: Cluster,
    world_size: int,
    end: End = "seconds",
) -> RankProgram:
    """The program with its collectives priced on a cluster.

    Args:
        end: Of the prices' interval.

    Raises:
        PlanError: A group that does not fit the cluster.
    """
    operations: list[Operation | None] = []
    for place, work in enumerate(program.works):
        one = None if place in collectives.unknown else collectives.by_row.get(work.row)
        operations.append(_operation(one, world_size) if one else None)
    known = list(dict.fromkeys(o for o in operations if o is not None))
    ends: dict[End, dict[Operation, float]] = {"seconds": {}, end: {}}
    if known:
        prices = price_communication(known, cluster)
        ends = {word: dict(zip(known, getattr(prices, word).tolist(), strict=True)) for word in ends}
    pairs = [(o, w.seconds) for o, w in zip(operations, program.works, strict=True) if o is not None]
    recorded = sum(seconds for _, seconds in pairs)
    change = sum(ends["seconds"][o] for o, _ in pairs) / recorded if recorded else 1.0
    return program.with_work_seconds(
        [
            ends[end][o]
            if o is not None
            else work.seconds * (_unknown_change(change, end) if place in collectives.unknown else 1.0)
            for place, (o, work) in enumerate(zip(operations, program.works, strict=True))
        ]
    )


def _unknown_change(change: float, end: End) -> float:
    if end == "seconds_low":
        return min(change, 1.0) / _UNKNOWN_FACTOR
    return max(change, 1.0) * _UNKNOWN_FACTOR if end == "seconds_high" else change


def _operation(collective: TimedCollective, world_size: int) -> Operation:
    size = world_size if collective.group_size in (0, 1) or not collective.ranks else collective.group_size
    ranks = collective.ranks or tuple(range(size))
    part = collective.part
    if part is not None and part.key[0] == "message":
        ends = tuple(int(rank) for rank in part.key[1:3])
        ranks = ends if max(ends) < world_size else ranks
    return collective_operation(collective.name, collective.message_bytes, ranks)


def describe_unknown(programs: Sequence[RankProgram], collectives: Sequence[RankCollectives]) -> str:
    """One line on the collectives that have no price; empty where all have one."""
    kinds: Counter[str] = Counter()
    shares = []
    for program, own in zip(programs, collectives, strict=True):
        kinds.update(own.by_row[program.works[place].row].name.replace("_", "-") for place in own.unknown)
        shares.append(sum(program.works[place].seconds for place in own.unknown))
    if not kinds:
        return ""
    shown = kinds.most_common(4)
    listed = ", ".join(f"{count} {kind}" for kind, count in shown)
    left = sum(kinds.values()) - sum(count for _, count in shown)
    more = f" and {left} others" if left else ""
    return (
        f"the size of {listed}{more} was not recorded ({format_seconds(max(shares))} of the recording): they "
        "change as the other collectives do, and the interval lets them take half to twice as long"
    )
