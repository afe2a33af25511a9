"""A recorded rank's program at the prices that are asked for: another device, batch, cluster or host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.operation import Operation
from perfcast.errors import PlanError
from perfcast.traces.events import Trace
from perfcast.traces.forecast.batch import BatchChange, change_of_batch
from perfcast.traces.forecast.collectives import (
    End,
    RankCollectives,
    communication_seconds,
)
from perfcast.traces.forecast.eager_kernels import VendorKernels
from perfcast.traces.forecast.elsewhere import LEARNED, ratios_elsewhere, recorded_works
from perfcast.traces.forecast.host.operators import reprice_host, runs_on_host
from perfcast.traces.forecast.host.other_machine import (
    find_other_host,
    with_other_host,
    with_spread,
    with_unknown_rest,
)
from perfcast.traces.forecast.host.other_processor import on_other_processor
from perfcast.traces.forecast.lines import check_second, on_lines
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.ratios import (
    UNRESOLVED,
    Provenance,
    Ratios,
    Side,
    price_ratios,
    sum_by_provenance,
)
from perfcast.traces.forecast.recording_cost import RecordingCost, cost_of_recording, without_cost
from perfcast.traces.forecast.request import SecondRecording, TraceForecastRequest
from perfcast.traces.forecast.sample_loops import with_loops
from perfcast.traces.forecast.unresolved import UnresolvedSize, unresolved_sizes, widened
from perfcast.traces.forecast.variant import Variant
from perfcast.traces.link.kernels import nest
from perfcast.traces.overheads.profile import apply_overheads, overheads_half_width
from perfcast.traces.timeline.program import RankProgram
from perfcast.traces.timeline.ranks import build_ranks


def reprice_ranks(
    traces: Sequence[Trace],
    programs: Sequence[RankProgram],
    request: TraceForecastRequest,
    collectives: Sequence[RankCollectives] = (),
) -> list[Variant]:
    """All ranks' programs as asked, ``request.changes`` aside.

    Args:
        collectives: Of each rank, where a cluster is asked for.

    Raises:
        PlanError: A batch that no shape follows; a precision that a device lacks; a second recording of
            other ranks or of the same batch.
    """
    others: Sequence[RankProgram | None] = [None] * len(traces)
    if request.second is not None:
        check_second(traces, request.second, request.batch)
        others = _second_programs(request.second)
    variants = [
        _reprice(trace, program, request, other)
        for trace, program, other in zip(traces, programs, others, strict=True)
    ]
    if request.cluster is None:
        return variants
    return [
        _on_cluster(trace, variant, own, request)
        for trace, variant, own in zip(traces, variants, collectives, strict=True)
    ]


def unrecorded(
    traces: Sequence[Trace], programs: Sequence[RankProgram], request: TraceForecastRequest
) -> list[RankProgram]:
    """The recorded programs without what recording cost their hosts: what a change is set against."""
    return [
        _without_recording(trace, program, request.plain_seconds.get(trace.rank))[0]
        for trace, program in zip(traces, programs, strict=True)
    ]


def _without_recording(
    trace: Trace, program: RankProgram, plain_seconds: float | None
) -> tuple[RankProgram, RecordingCost]:
    if not runs_on_host(program):
        return program, RecordingCost()
    cost = cost_of_recording(trace, program, plain_seconds)
    return without_cost(trace, program, cost), cost


def _second_programs(second: SecondRecording) -> list[RankProgram]:
    """Programs of the second recording, without what recording them cost."""
    found = []
    for trace, program in zip(second.traces, build_ranks(second.traces), strict=True):
        if not runs_on_host(program):
            raise PlanError(f"{trace.source}: a second recording serves programs of a processor alone")
        found.append(_without_recording(trace, program, second.plain_seconds.get(trace.rank))[0])
    return found


def _reprice(
    trace: Trace, program: RankProgram, request: TraceForecastRequest, other: RankProgram | None = None
) -> Variant:
    """The host first, then works on the wanted device with the wanted batch; collectives stay.

    Args:
        other: The rank's program of the second recording, where there is one.
    """
    parents = nest(trace.events).parents
    change = None
    if request.batch and other is None:
        change = change_of_batch(trace, parents, *request.batch, request.calls.get(trace.rank))
    is_host = runs_on_host(program)
    program, cost = _without_recording(trace, program, request.plain_seconds.get(trace.rank))
    overheads = 0.0
    if request.profile:
        overheads = overheads_half_width(request.profile, program)
        program = apply_overheads(request.profile, program)
    if other is not None and request.second is not None and request.batch is not None:
        recorded, wanted = request.batch
        program = on_lines(program, other, (wanted - recorded) / (request.second.batch - recorded))
    variant = Variant.certain(program)
    sides = _sides(trace, request, is_host)
    is_elsewhere = sides is not None and sides[0].device != sides[1].device
    if is_host and change and is_elsewhere:
        raise PlanError("another processor and another batch at once are not forecast: ask for one of them")
    if is_host and change:
        variant = reprice_host(trace, program, parents, change, cost, request.after)
    elif is_host and sides is not None and is_elsewhere:
        variant = with_unknown_rest(on_other_processor(trace, program, parents, cost, sides), sides[1].device)
    elif not is_host and request.before and request.after and (change or request.after != request.before):
        both = (request.before, request.after)
        variant = _reprice_works(trace, program, parents, change, both, request.kernels)
    if change:
        variant = with_loops(trace, variant, change)
    host = None if is_host else find_other_host(request)
    if host is not None:
        variant = with_other_host(variant, host)
    return with_spread(variant, 1 + overheads) if overheads else variant


def _sides(trace: Trace, request: TraceForecastRequest, is_host: bool) -> tuple[Side, Side] | None:
    """What prices both devices, which are processors or neither is.

    Raises:
        PlanError: One of each.
    """
    if request.before is None or request.after is None:
        return None
    if is_host != request.after.device.is_cpu:
        ran, wanted = ("a processor", "an accelerator") if is_host else ("an accelerator", "a processor")
        raise PlanError(
            f"{trace.source} ran on {ran}: what its program would run on {wanted} "
            f"({request.after.device.name}) is not in the recording; 'perfcast predict' captures the program"
        )
    return request.before, request.after


def _reprice_works(
    trace: Trace,
    program: RankProgram,
    parents: Integers,
    change: BatchChange | None,
    sides: tuple[Side, Side],
    kernels: Mapping[str, VendorKernels] | None = None,
) -> Variant:
    """Works on the wanted device with the wanted batch; collectives stay."""
    recorded = RecordedOperations(trace, parents)
    wanted = RecordedOperations(trace, parents, change.inputs_of) if change else recorded
    rows = [work.operator for work in program.works]
    before, after = [recorded.of(row) for row in rows], [wanted.of(row) for row in rows]
    works = recorded_works(trace, program.works, before, after)
    growth = change.ratio if change else 1.0
    is_learned = all(side.cost_model.name == LEARNED for side in sides)

    def ratios_of(wanted: Sequence[Operation | None]) -> Ratios:
        if sides[0].device != sides[1].device and is_learned:
            of_wanted = recorded_works(trace, program.works, before, wanted)
            return ratios_elsewhere(of_wanted, *sides, growth, kernels)
        return price_ratios(before, wanted, *sides, growth)

    ratios = ratios_of(after)
    around = [recorded.row_of(row) for row in rows]
    if change:
        ratios = widened(change, around, RecordedOperations.of, recorded, ratios, ratios_of)
    seconds, stays = works.seconds, works.stays

    def scaled(ratio: Floats) -> RankProgram:
        return program.with_work_seconds(np.where(stays, seconds, seconds * ratio).tolist())

    provenance = ratios.provenance_where(~stays)
    return Variant(
        scaled(ratios.ratio),
        scaled(ratios.low),
        scaled(ratios.high),
        sum_by_provenance(provenance, seconds.tolist()),
        _unresolved(change, around, provenance, seconds.tolist(), len(program.steps)),
    )


def _unresolved(
    change: BatchChange | None,
    rows: Sequence[int],
    provenance: Sequence[Provenance],
    seconds: Sequence[float],
    num_steps: int,
) -> tuple[UnresolvedSize, ...]:
    if change is None:
        return ()
    chosen = [index for index, word in enumerate(provenance) if word == UNRESOLVED]
    return unresolved_sizes(change, [rows[i] for i in chosen], [seconds[i] for i in chosen], num_steps)


def _on_cluster(
    trace: Trace, variant: Variant, collectives: RankCollectives, request: TraceForecastRequest
) -> Variant:
    """Collectives priced on the wanted cluster; as they are without one."""
    cluster = request.cluster
    if cluster is None:
        return variant
    world_size = request.world_size or trace.world_size

    def on_cluster(program: RankProgram, end: End) -> RankProgram:
        return communication_seconds(program, collectives, cluster, world_size, end)

    return replace(
        variant,
        middle=on_cluster(variant.middle, "seconds"),
        low=on_cluster(variant.low, "seconds_low"),
        high=on_cluster(variant.high, "seconds_high"),
    )
