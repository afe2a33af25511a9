"""From a recorded program to a forecast: on another device, of another batch, with other exchanges, changed.

The recording gives the structure (what is launched when, what waits for what) and the times; what changes
is priced anew, and all ranks run again in the engine. Steps are repeated until a host that runs ahead is
slowed by the full queue of its device, as in the long run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.cluster import Cluster
from perfcast.errors import PlanError
from perfcast.traces.events import Numbers, Trace
from perfcast.traces.exchange_sizes import find_exchanges
from perfcast.traces.forecast_batch import scaled_sizes
from perfcast.traces.forecast_exchanges import exchange_seconds
from perfcast.traces.forecast_host import reprice_host
from perfcast.traces.link import link_kernels, nest
from perfcast.traces.overheads import OverheadProfile, apply_overheads
from perfcast.traces.recorded_operations import RecordedOperations
from perfcast.traces.repricing import BOUNDED, KEPT, PRICED, Ratios, Side, price_ratios
from perfcast.traces.timeline_program import RankProgram
from perfcast.traces.timeline_ranks import build_ranks
from perfcast.traces.timeline_repeat import play_steadily
from perfcast.traces.what_if import Changes, apply_changes
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
    """

    before: Side | None = None
    after: Side | None = None
    batch: tuple[int, int] | None = None
    cluster: Cluster | None = None
    world_size: int | None = None
    profile: OverheadProfile | None = None
    changes: Changes = field(default_factory=Changes)


@dataclass(frozen=True)
class TraceForecast:
    """The result; all times in seconds, of a step of the rank that takes longest.

    Attributes:
        measured_seconds: Mean of the recorded steps.
        replayed_seconds: The recorded program, run again unchanged: how far to trust the structure.
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
        """Recorded program over forecast, both run by the engine."""
        return self.replayed_seconds / self.step_seconds if self.step_seconds else float("inf")


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
    replayed = _mean(play_steadily(programs))
    notes: list[str] = []
    by_provenance: dict[str, float] = {}
    variants = []
    met = 0
    for trace, program in zip(traces, programs, strict=True):
        variant = _reprice(trace, program, request, by_provenance)
        variant, own = _change(trace, variant, request)
        met += own
        variants.append(variant)
    if request.changes.speedups and not met:
        names = ", ".join(name for name, _ in request.changes.speedups)
        raise PlanError(f"nothing recorded has {names} in its name")
    middle, low, high = (
        _mean(play_steadily([getattr(v, end) for v in variants])) for end in ("middle", "low", "high")
    )
    notes += _assumptions(traces, request, by_provenance)
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


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _device_seconds(program: RankProgram) -> float:
    return sum(w.seconds for w in program.works if not w.exchange)


def _reprice(
    trace: Trace, program: RankProgram, request: ForecastRequest, by_provenance: dict[str, float]
) -> _Variant:
    """Works on the wanted device with the wanted batch; exchanges on the wanted cluster; another host."""
    nesting = nest(trace.events)
    sizes = scaled_sizes(trace, *request.batch) if request.batch else {}
    if request.profile:
        program = apply_overheads(request.profile, program)
    variant = _Variant.of(program)
    if request.after and request.before and program.works and (sizes or request.after != request.before):
        ratios = _work_ratios(
            trace, program, (request.before, request.after), request.batch, sizes, nesting.parents
        )
        _count(program, ratios, by_provenance)
        seconds = np.array([w.seconds for w in program.works])
        fixed = np.array([bool(w.exchange) for w in program.works])
        variant = _Variant(
            *(
                program.with_work_seconds(np.where(fixed, seconds, seconds * r).tolist())
                for r in (ratios.ratio, ratios.low, ratios.high)
            )
        )
    elif not program.works and sizes and request.batch:
        ends = reprice_host(
            trace, program, nesting.parents, sizes, request.batch, by_provenance, request.after
        )
        variant = _Variant(*ends)
    if request.cluster is not None or sizes:
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
    batch: tuple[int, int] | None,
    sizes: dict[int, int],
    parents: Numbers,
) -> Ratios:
    recorded, wanted = RecordedOperations(trace, parents), RecordedOperations(trace, parents, sizes)
    rows = [work.operator for work in program.works]
    growth = batch[1] / batch[0] if batch else 1.0
    before, after = [recorded.of(row) for row in rows], [wanted.of(row) for row in rows]
    return price_ratios(before, after, *sides, growth)


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
