"""From a recorded program to a forecast: on another device, of another batch, with other exchanges, changed.

The recording gives the structure (what is launched when, what waits for what) and the times; what changes
is priced anew, and all ranks run again in the engine. Steps are repeated until a host that runs ahead is
slowed by the full queue of its device, as in the long run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.cluster import Cluster
from perfcast.errors import PlanError
from perfcast.traces.collectives.sizes import find_exchanges
from perfcast.traces.events import Trace
from perfcast.traces.forecast.batch import BatchChange, change_of_batch
from perfcast.traces.forecast.collectives import exchange_seconds
from perfcast.traces.forecast.host import reprice_host, runs_on_host
from perfcast.traces.forecast.lines import SecondRecording, check_second, on_lines
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.recording_cost import RecordingCost, cost_of_recording, without_cost
from perfcast.traces.forecast.repricing import BOUNDED, KEPT, PRICED, Ratios, Side, price_ratios
from perfcast.traces.forecast.what_if import Changes, apply_changes, describe_changes
from perfcast.traces.link.kernels import link_kernels, nest
from perfcast.traces.overheads.profile import OverheadProfile, apply_overheads
from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.program import RankProgram
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.traces.timeline.repeat import play_steadily
from perfcast.traces.timeline.startup import without_startup
from perfcast.units import format_seconds


@dataclass(frozen=True)
class ForecastRequest:
    """What is asked.

    Attributes:
        before, after: Recorded and wanted device with what prices them; None: devices stay.
        batch: (recorded, wanted) batch; None: as recorded.
        cluster: Links that exchanges run over; None: exchanges stay as recorded.
        world_size: Ranks of exchanges on it; None: as recorded.
        profile: Another host's overheads; None: the recorded ones.
        changes: See ``what_if``.
        plain_seconds: Rank → step without recording, where that was timed: steps are forecast without what
            recording costs a processor.
        second: The same program on a processor with another batch: no prices, but lines through both.
    """

    before: Side | None = None
    after: Side | None = None
    batch: tuple[int, int] | None = None
    cluster: Cluster | None = None
    world_size: int | None = None
    profile: OverheadProfile | None = None
    changes: Changes = field(default_factory=Changes)
    plain_seconds: Mapping[int, float] = field(default_factory=dict)
    second: SecondRecording | None = None


@dataclass(frozen=True)
class TraceForecast:
    """The result; all times in seconds, of a step of the rank that takes longest.

    Attributes:
        measured_seconds: Mean of the recorded steps.
        replayed_seconds: The recorded program, run again once from where its ranks began: how far to trust
            the structure.
        steady_seconds: The recorded program in the long run, as the forecast is: ranks that began apart keep
            in step, and a host that ran ahead waits for its full queue.
        step_seconds, step_seconds_low, step_seconds_high: The forecast.
        device_seconds_before, device_seconds_after: Of all works of the first rank, a step, exchanges aside.
        host_seconds_before, host_seconds_after: Of all host pieces likewise.
        seconds_by_provenance: Device (on a processor: operator) time by what its price rests on, as recorded.
        assumptions: What was taken for granted.
    """

    source: str
    recorded_device: str
    device: str
    num_ranks: int
    measured_seconds: float
    replayed_seconds: float
    steady_seconds: float
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    device_seconds_before: float
    device_seconds_after: float
    host_seconds_before: float
    host_seconds_after: float
    seconds_by_provenance: dict[str, float]
    assumptions: tuple[str, ...]

    @property
    def speedup(self) -> float:
        """Recorded program over forecast, both run by the engine, in the long run."""
        return self.steady_seconds / self.step_seconds if self.step_seconds else float("inf")


@dataclass(frozen=True)
class _Variant:
    """A rank's program at its best estimate, at the low and at the high end."""

    middle: RankProgram
    low: RankProgram
    high: RankProgram

    @classmethod
    def of(cls, program: RankProgram) -> _Variant:
        return cls(program, program, program)


def forecast_from_traces(
    traces: Sequence[Trace], request: ForecastRequest, step_numbers: Sequence[int] | None = None
) -> TraceForecast:
    """Forecast a step of the recorded program as asked.

    Raises:
        TraceError: A recording without operators.
        PlanError: A batch that no shape follows; a precision that a device lacks; a speed-up that meets
            nothing.
    """
    programs = build_ranks(traces, step_numbers)
    others: Sequence[RankProgram | None] = [None] * len(programs)
    if request.second is not None:
        check_second(traces, request.second, request.batch)
        others = _plain_programs(request.second)
    replayed = _mean(play_ranks(programs).step_seconds)
    programs, notes = _without_startup(traces, programs)
    by_provenance: dict[str, float] = {}
    variants = []
    met = 0
    for trace, program, other in zip(traces, programs, others, strict=True):
        variant = _reprice(trace, program, request, by_provenance, other)
        variant, own = _change(trace, variant, request)
        met += own
        variants.append(variant)
    if request.changes.speedups and not met:
        names = ", ".join(name for name, _ in request.changes.speedups)
        raise PlanError(f"nothing recorded has {names} in its name")
    middle, low, high = (
        _mean(play_steadily([getattr(v, end) for v in variants])) for end in ("middle", "low", "high")
    )
    notes += [*_assumptions(traces, request, by_provenance), *describe_changes(request.changes, programs[0])]
    latest = max(program.offset_seconds for program in programs)
    if latest:
        notes.append(f"ranks began up to {format_seconds(latest)} apart; in the long run they keep in step")
    first, changed = programs[0], variants[0].middle
    steps = max(len(first.steps), 1)
    return TraceForecast(
        traces[0].source,
        traces[0].devices[0].name if traces[0].devices else "",
        request.after.device.name if request.after else "",
        len(traces),
        max(float(np.mean(p.measured_seconds)) for p in programs),
        replayed,
        _mean(play_steadily(programs)),
        middle,
        min(low, middle),
        max(high, middle),
        _device_seconds(first) / steps,
        _device_seconds(changed) / steps,
        sum(p.seconds for p in first.pieces) / steps,
        sum(p.seconds for p in changed.pieces) / steps,
        by_provenance,
        tuple(notes),
    )


def _without_startup(
    traces: Sequence[Trace], programs: Sequence[RankProgram]
) -> tuple[tuple[RankProgram, ...], list[str]]:
    """The programs as steps run that no profiler begins with, and what that leaves out."""
    plain = tuple(map(without_startup, traces, programs))
    saved = max(
        sum(piece.seconds for piece in recorded.pieces) - sum(piece.seconds for piece in left.pieces)
        for recorded, left in zip(programs, plain, strict=True)
    )
    if not saved:
        return plain, []
    text = f"the profiler's start, {format_seconds(saved)} of the first recorded step, is left out"
    return plain, [text]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _device_seconds(program: RankProgram) -> float:
    return sum(w.seconds for w in program.works if not w.exchange)


def _plain_programs(second: SecondRecording) -> list[RankProgram]:
    """Programs of the second recording, without what recording them cost."""
    found = []
    for trace, program in zip(second.traces, build_ranks(second.traces), strict=True):
        if not runs_on_host(program):
            raise PlanError(f"{trace.source}: a second recording serves programs of a processor alone")
        cost = cost_of_recording(trace, program, second.plain_seconds.get(trace.rank))
        found.append(without_cost(trace, program, cost))
    return found


def _reprice(
    trace: Trace,
    program: RankProgram,
    request: ForecastRequest,
    by_provenance: dict[str, float],
    other: RankProgram | None,
) -> _Variant:
    """Works on the wanted device with the wanted batch; exchanges on the wanted cluster; another host."""
    nesting = nest(trace.events)
    change = change_of_batch(trace, *request.batch) if request.batch and other is None else None
    cost = RecordingCost()
    if runs_on_host(program):
        cost = cost_of_recording(trace, program, request.plain_seconds.get(trace.rank))
        program = without_cost(trace, program, cost)
    if request.profile:
        program = apply_overheads(request.profile, program)
    if other is not None and request.second is not None and request.batch is not None:
        recorded, wanted = request.batch
        program = on_lines(program, other, (wanted - recorded) / (request.second.batch - recorded))
    variant = _Variant.of(program)
    if (
        request.after
        and request.before
        and not runs_on_host(program)
        and (change or request.after != request.before)
    ):
        ratios = _work_ratios(trace, program, (request.before, request.after), change, nesting.parents)
        _count(program, ratios, by_provenance)
        seconds = np.array([w.seconds for w in program.works])
        fixed = np.array([bool(w.exchange) for w in program.works])
        variant = _Variant(
            *(
                program.with_work_seconds(np.where(fixed, seconds, seconds * r).tolist())
                for r in (ratios.ratio, ratios.low, ratios.high)
            )
        )
    elif change and runs_on_host(program):
        ends = reprice_host(trace, program, nesting.parents, change, cost, by_provenance, request.after)
        variant = _Variant(*ends)
    if request.cluster is not None or change:
        links = link_kernels(trace.events, nesting)
        exchanges = {e.row: e for e in find_exchanges(trace, links, nesting.parents)}
        variant = _Variant(
            *(
                exchange_seconds(
                    getattr(variant, end), exchanges, request.cluster, request.world_size or trace.world_size
                )
                for end in ("middle", "low", "high")
            )
        )
    return variant


def _work_ratios(
    trace: Trace,
    program: RankProgram,
    sides: tuple[Side, Side],
    change: BatchChange | None,
    parents: Integers,
) -> Ratios:
    recorded = RecordedOperations(trace, parents)
    wanted = RecordedOperations(trace, parents, change.reshape) if change else recorded
    rows = [work.operator for work in program.works]
    before, after = [recorded.of(row) for row in rows], [wanted.of(row) for row in rows]
    return price_ratios(before, after, *sides, change.ratio if change else 1.0)


def _count(program: RankProgram, ratios: Ratios, by_provenance: dict[str, float]) -> None:
    for work, provenance in zip(program.works, ratios.provenance, strict=True):
        key = KEPT if work.exchange else provenance
        by_provenance[key] = by_provenance.get(key, 0.0) + work.seconds


def _change(trace: Trace, variant: _Variant, request: ForecastRequest) -> tuple[_Variant, int]:
    if request.changes == Changes():
        return variant, 0
    parents = nest(trace.events).parents
    ends, met = [], 0
    for end in (variant.middle, variant.low, variant.high):
        changed, met = apply_changes(request.changes, trace, parents, end)
        ends.append(changed)
    return _Variant(*ends), met


def _assumptions(
    traces: Sequence[Trace], request: ForecastRequest, by_provenance: dict[str, float]
) -> list[str]:
    notes = ["host times are as recorded" if request.profile is None else f"host of {request.profile.host}"]
    if request.second is not None:
        notes.append(
            f"each operator is on a line through a second recording, of batch {request.second.batch}"
        )
    if request.plain_seconds and traces[0].platform == "cpu":
        notes.append("without what recording cost, by the steps that were timed without it")
    total = sum(by_provenance.values())
    if by_provenance.get(BOUNDED):
        share = 100 * by_provenance[BOUNDED] / total
        notes.append(f"{share:.1f} % of the recorded time has no rule and follows memory bandwidth")
    if by_provenance.get(PRICED) and request.after:
        notes.append(f"the rest is recorded time × ratio of prices by {request.after.cost_model.name}")
    if request.cluster is None and traces[0].world_size > 1:
        notes.append("exchanges take as long as recorded on the rank that waited least")
    if len(traces) < traces[0].world_size:
        notes.append(
            f"{len(traces)} of {traces[0].world_size} ranks: the others' lateness is part of exchanges"
        )
    return [*notes, *dict.fromkeys(warning for trace in traces for warning in trace.warnings)]
