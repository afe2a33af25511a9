"""From a recorded program to a forecast: on another device, of another batch, with other collectives,
changed.

The recording gives the structure (what is launched when, what waits for what) and the times; what changes
is priced anew, and all ranks run again in the engine. Steps are repeated until a host that runs ahead is
slowed by the full queue of its device, as in the long run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.errors import PlanError
from perfcast.traces.events import Trace
from perfcast.traces.forecast.collectives import RankCollectives, collectives_of_ranks, describe_unknown
from perfcast.traces.forecast.eager_kernels import sharing
from perfcast.traces.forecast.elsewhere import LEARNED
from perfcast.traces.forecast.host.operators import runs_on_host
from perfcast.traces.forecast.host.other_machine import describe_other_host, find_other_host
from perfcast.traces.forecast.interval import (
    DEVIATION,
    PROCESSOR_DEVIATION,
    join_ends,
    relative_steps,
    steps_half_width,
)
from perfcast.traces.forecast.ratios import BOUNDED, NOT_CALIBRATED, PRICED, Provenance, sum_by_provenance
from perfcast.traces.forecast.repricing import reprice_ranks, unrecorded
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.steps import StepForecast, describe_steps, forecast_steps
from perfcast.traces.forecast.unexplained import (
    UnexplainedGap,
    describe_gaps,
    unexplained_gaps,
    with_gaps_open,
)
from perfcast.traces.forecast.unresolved import UnresolvedSize, describe_unresolved
from perfcast.traces.forecast.variant import Variant
from perfcast.traces.forecast.what_if import (
    Changes,
    apply_changes,
    describe_changes,
    describe_host_changes,
    describe_unmet,
)
from perfcast.traces.link.kernels import nest
from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.program import RankProgram
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.traces.timeline.repeat import play_steadily
from perfcast.traces.timeline.startup import without_startup
from perfcast.units import format_seconds

#: Unexplained pauses that a result lists.
_LISTED = 20


@dataclass(frozen=True)
class TraceForecast:
    """The result; all times in seconds, of a step of the rank that takes longest: as recorded and run once in
    each step, in the long run over all of them.

    Attributes:
        measured_seconds: Mean of the recorded steps, each of the rank that took longest in it.
        replayed_seconds: The recorded program, run again once from where its ranks began: how far to trust
            the structure.
        steady_seconds: The recorded program in the long run, as the forecast is: ranks that began apart keep
            in step, and a host that ran ahead waits for its full queue.
        unchanged_seconds: That without what recording cost its host: what the forecast is set against.
        step_seconds, step_seconds_low, step_seconds_high: The forecast.
        once_seconds, once_seconds_low, once_seconds_high: The forecast run once, begun as it was recorded:
            from where the ranks began, with what was still running. What a recorded step is compared with.
        device_seconds_before, device_seconds_after: Of all works of the first rank, a step, communication
            aside.
        device_seconds_low, device_seconds_high: What prices leave open of the latter; 90 %.
        host_seconds_before, host_seconds_after: Of all host pieces likewise.
        host_seconds_low, host_seconds_high: What another machine's host leaves open; 90 %.
        seconds_by_provenance: Device (on a processor: operator) time by what its price rests on, as recorded.
        steps: Each step of those asked for.
        assumptions: What was taken for granted.
        unresolved: Sizes of which the recording does not show whether they follow the batch.
        unexplained: The longest pauses of the first rank's streams that nothing recorded explains.
        unexplained_seconds: All of them, a step.
    """

    source: str
    recorded_device: str
    device: str
    num_ranks: int
    measured_seconds: float
    replayed_seconds: float
    steady_seconds: float
    unchanged_seconds: float
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    once_seconds: float
    once_seconds_low: float
    once_seconds_high: float
    device_seconds_before: float
    device_seconds_after: float
    device_seconds_low: float
    device_seconds_high: float
    host_seconds_before: float
    host_seconds_after: float
    host_seconds_low: float
    host_seconds_high: float
    seconds_by_provenance: Mapping[Provenance, float]
    steps: tuple[StepForecast, ...]
    assumptions: tuple[str, ...]
    unresolved: tuple[UnresolvedSize, ...] = ()
    unexplained: tuple[UnexplainedGap, ...] = ()
    unexplained_seconds: float = 0.0

    @property
    def speedup(self) -> float:
        """Recorded program, without what recording cost, over forecast: both in the long run."""
        return self.unchanged_seconds / self.step_seconds if self.step_seconds else float("inf")


def forecast_from_traces(traces: Sequence[Trace], request: TraceForecastRequest) -> TraceForecast:
    """Forecast a step of the recorded program as asked.

    Raises:
        TraceError: A recording without operators.
        PlanError: A batch that no shape follows; a precision that a device lacks; a speed-up that meets
            nothing.
    """
    recorded = build_ranks(traces, request.steps)
    replayed = _mean(play_ranks(recorded).step_seconds)
    programs = [without_startup(trace, program) for trace, program in zip(traces, recorded, strict=True)]
    collectives = collectives_of_ranks(traces, programs) if request.cluster is not None else ()
    repriced = reprice_ranks(traces, programs, request, collectives)
    pairs = [pair for variant in repriced for pair in variant.seconds_by_provenance.items()]
    sums = sum_by_provenance([word for word, _ in pairs], [seconds for _, seconds in pairs])
    unresolved = repriced[0].unresolved
    variants = _changed(traces, repriced, request.changes)
    plain = unrecorded(traces, programs, request)
    if [variant.middle for variant in variants] != plain:
        variants = with_gaps_open(variants)
    gaps = unexplained_gaps(programs[0])
    middles = [variant.middle for variant in variants]
    each = play_steadily(middles)
    middle, steady = _mean(each), play_steadily(programs)
    one_by_one = forecast_steps(recorded, middles, each)
    width = _own_half_width(programs, (steady, [step.recorded_seconds for step in one_by_one]), request)
    low, high = _ends(variants, repriced, middle, width)
    once = _mean([step.once_seconds for step in one_by_one])
    first, changed = plain[0], variants[0].middle
    steps = max(len(first.steps), 1)
    return TraceForecast(
        source=traces[0].source,
        recorded_device=traces[0].devices[0].name if traces[0].devices else "",
        device=request.after.device.name if request.after else "",
        num_ranks=len(traces),
        measured_seconds=_mean([step.recorded_seconds for step in one_by_one]),
        replayed_seconds=replayed,
        steady_seconds=_mean(steady),
        unchanged_seconds=_mean(steady if plain == programs else play_steadily(plain)),
        step_seconds=middle,
        step_seconds_low=low,
        step_seconds_high=high,
        once_seconds=once,
        once_seconds_low=once * low / middle if middle else once,
        once_seconds_high=once * high / middle if middle else once,
        device_seconds_before=_device_seconds(first) / steps,
        device_seconds_after=_device_seconds(changed) / steps,
        device_seconds_low=_device_seconds(variants[0].low) / steps,
        device_seconds_high=_device_seconds(variants[0].high) / steps,
        host_seconds_before=_host_seconds(first) / steps,
        host_seconds_after=_host_seconds(changed) / steps,
        host_seconds_low=_host_seconds(variants[0].low) / steps,
        host_seconds_high=_host_seconds(variants[0].high) / steps,
        seconds_by_provenance=sums,
        steps=one_by_one,
        assumptions=(
            *describe_steps(one_by_one),
            *_startup_note(recorded, programs),
            *_assumptions(traces, request, sums),
            *_unknown_note(programs, collectives),
            *describe_changes(request.changes, programs[0]),
            *_offset_note(programs),
            *describe_gaps(gaps, steps, _mean(steady)),
            *(describe_unresolved(unresolved, request.batch) if request.batch else ()),
        ),
        unresolved=unresolved,
        unexplained=gaps[:_LISTED],
        unexplained_seconds=sum(gap.seconds for gap in gaps) / steps,
    )


def _ends(
    variants: Sequence[Variant],
    before: Sequence[Variant],
    middle: float,
    own_half_width: float,
) -> tuple[float, float]:
    """90 % interval of the step: prices at their ends, the change of the program, how steps differ.

    Args:
        before: The programs without the changes that need no prices.
        own_half_width: Of one further step as recorded, relative.
    """
    certain = all(v.low == v.middle == v.high for v in variants)
    low, high = (
        middle if certain else _mean(play_steadily([getattr(v, end) for v in variants]))
        for end in ("low", "high")
    )
    change = 0.0
    if any(v.middle is not b.middle for v, b in zip(variants, before, strict=True)) and middle:
        unchanged = _mean(play_steadily([b.middle for b in before]))
        change = math.log(middle / unchanged) if unchanged else 0.0
    return join_ends(middle, low, high, own_half_width, change)


def _own_half_width(
    programs: Sequence[RankProgram], recorded: Sequence[Sequence[float]], request: TraceForecastRequest
) -> float:
    """How far one further step may be off, relative, by the recorded ones and those timed beside them.

    Args:
        recorded: Recorded steps, in the long run and as they ran; those that differ more tell.
    """
    usual = PROCESSOR_DEVIATION if all(map(runs_on_host, programs)) else DEVIATION
    timed = max(request.plain_steps.values(), key=steps_half_width, default=())
    return steps_half_width(relative_steps([max(recorded, key=steps_half_width), timed]), usual)


def _changed(traces: Sequence[Trace], variants: Sequence[Variant], changes: Changes) -> list[Variant]:
    """The programs with the changes that need no prices."""
    if changes == Changes():
        return list(variants)
    found, met = [], set[str]()
    for trace, variant in zip(traces, variants, strict=True):
        parents = nest(trace.events).parents
        middle, own = apply_changes(changes, trace, parents, variant.middle)
        low, _ = apply_changes(changes, trace, parents, variant.low)
        high, _ = apply_changes(changes, trace, parents, variant.high)
        found.append(replace(variant, middle=middle, low=low, high=high))
        met |= own
    for name in (name for name, _ in changes.speedups if name not in met):
        raise PlanError(describe_unmet(name, [variant.middle for variant in variants]))
    return found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _device_seconds(program: RankProgram) -> float:
    running = set(program.pieces[0].launches)  # works of earlier steps
    return sum(
        work.seconds
        for index, work in enumerate(program.works)
        if not work.collective and index not in running
    )


def _host_seconds(program: RankProgram) -> float:
    return sum(piece.seconds for piece in program.pieces)


def _startup_note(recorded: Sequence[RankProgram], programs: Sequence[RankProgram]) -> list[str]:
    """What the programs leave out of the recording: the profiler's start."""
    saved = max(
        sum(piece.seconds for piece in one.pieces) - sum(piece.seconds for piece in left.pieces)
        for one, left in zip(recorded, programs, strict=True)
    )
    if not saved:
        return []
    return [f"the profiler's start, {format_seconds(saved)} of the first recorded step, is left out"]


def _unknown_note(programs: Sequence[RankProgram], collectives: Sequence[RankCollectives]) -> list[str]:
    """Collectives that have no price on the wanted cluster."""
    note = describe_unknown(programs, collectives) if collectives else ""
    return [note] if note else []


def _offset_note(programs: Sequence[RankProgram]) -> list[str]:
    latest = max(program.offset_seconds for program in programs)
    if not latest:
        return []
    return [f"ranks began up to {format_seconds(latest)} apart; in the long run they keep in step"]


def _host_note(trace: Trace, request: TraceForecastRequest) -> str:
    """Whose host times they are, and what ``--what-if`` makes of them."""
    note = _prices_of_host(trace, request) or "host times are as recorded"
    changed = describe_host_changes(request.changes, is_host=trace.platform == "cpu")
    return f"{note}, and then {changed}" if changed else note


def _prices_of_host(trace: Trace, request: TraceForecastRequest) -> str | None:
    """What host times rest on, where they are not the recorded ones."""
    other = find_other_host(request) if trace.platform != "cpu" else None
    if other is not None:
        return describe_other_host(other)
    if request.profile is not None:
        return f"host of {request.profile.host}" if request.profile.host else "host times by --overheads"
    before, after = request.before, request.after
    if before is not None and after is not None and before.device != after.device:
        return "operators are priced on the other processor; what is between them stays as recorded"
    if request.batch is not None and request.second is None and trace.platform == "cpu":
        return "operators follow the batch; what is between them stays as recorded"
    return None


def _sharing_note(request: TraceForecastRequest) -> list[str]:
    """How much of what kernels took beyond their prices is taken to come along to another device."""
    before, after = request.before, request.after
    if before is None or after is None or before.device == after.device or after.cost_model.name != LEARNED:
        return []
    share = f"{100 * sharing(before.device, after.device):.0f} %"
    return [f"of what kernels took beyond their prices {share} (of its logarithm) is assumed to come along"]


def _assumptions(
    traces: Sequence[Trace], request: TraceForecastRequest, seconds_by_provenance: Mapping[Provenance, float]
) -> list[str]:
    notes = [_host_note(traces[0], request)]
    if request.second is not None:
        notes.append(
            f"each operator is on a line through a second recording, of batch {request.second.batch}"
        )
    if request.plain_seconds and traces[0].platform == "cpu":
        notes.append("without what recording cost, by the steps that were timed without it")
    total = sum(seconds_by_provenance.values())
    if seconds_by_provenance.get(BOUNDED):
        share = 100 * seconds_by_provenance[BOUNDED] / total
        notes.append(f"{share:.1f} % of the recorded time has no rule and follows memory bandwidth")
    if seconds_by_provenance.get(NOT_CALIBRATED):
        share = 100 * seconds_by_provenance[NOT_CALIBRATED] / total
        notes.append(
            f"{share:.1f} % of the recorded time is of operators that were not calibrated: it follows memory "
            "bandwidth, half to twice that; 'perfcast calibrate' measures what is missing"
        )
    if seconds_by_provenance.get(PRICED) and request.after:
        notes.append(f"the rest is recorded time × ratio of prices by {request.after.cost_model.name}")
        notes += _sharing_note(request)
    if request.cluster is None and traces[0].world_size > 1:
        notes.append("collectives take as long as recorded on the rank that waited least")
    if len(traces) < traces[0].world_size:
        notes.append(
            f"{len(traces)} of {traces[0].world_size} ranks: the others' lateness is part of collectives"
        )
    return [*notes, *dict.fromkeys(warning for trace in traces for warning in trace.warnings)]
