"""The host's own time between calls: Python, autograd, optimizers; put into a program from timelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from perfcast.replays.build.call_times import CallTimeline, CallTimes, host_rows, median_times
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram
from perfcast.traces.events import NONE, Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.link.partners import partners
from perfcast.traces.link.traces import BY_NUMBER, link

#: Whether a replay keeps the host busy between calls: not at all, as long as recorded, or in proportion to
#: how fast calls are here.
HostGaps = Literal["off", "recorded", "scaled"]


@dataclass(frozen=True)
class GapSource:
    """Where a program's gaps are from.

    ``is_observed``: the timeline was taken while the execution trace was; each event then cost much more
    than with a timeline alone. ``num_steps`` steps were averaged (medians).
    ``processor_seconds`` are the whole program's when nothing was recorded; NaN where the recording does
    not tell them.
    """

    is_observed: bool
    num_steps: int
    processor_seconds: float = float("nan")


def with_host_gaps(
    program: ReplayProgram,
    execution_trace: ExecutionTrace,
    linked: Trace,
    timeline: Trace | None = None,
    *,
    label_seconds: Mapping[bool, float],
) -> tuple[ReplayProgram, GapSource]:
    """The program with gaps and own seconds of its calls as timelines have them.

    Args:
        linked: The timeline recorded with the execution trace.
        timeline: Another one of the same program, recorded without an execution trace: its steps are
            preferred where the program is one step.
        label_seconds: The profiler's cost of an event with and without an execution trace.

    Raises:
        TraceError: The timeline is not of the execution trace.
    """
    found = link(execution_trace, linked)
    program = _ending(program, linked)
    rows = [found.rows.get(call.node_id, NONE) for call in program.calls]
    if timeline is not None and timeline.steps and program.num_steps == 1:
        own = CallTimeline(timeline, label_seconds[False])
        steps = _steps(program.calls, rows, linked, own)
        if steps:
            return _timed(program, median_times(steps)), GapSource(False, len(steps))
    is_observed = found.how == BY_NUMBER
    window = (linked.steps[0].start_seconds, linked.steps[-1].end_seconds) if linked.steps else None
    times = CallTimeline(linked, label_seconds[is_observed]).times(program.calls, rows, window)
    return _timed(program, times), GapSource(is_observed, program.num_steps)


def _ending(program: ReplayProgram, linked: Trace) -> ReplayProgram:
    """The program with a call at the end that stands for what the host does after the last one."""
    if not linked.steps or program.calls[-1].kind is CallKind.IDLE:
        return program
    last = ReplayCall(NONE, CallKind.IDLE, "", "", "", (), step=program.calls[-1].step)
    return replace(program, calls=(*program.calls, last))


def _steps(
    calls: Sequence[ReplayCall], rows: Sequence[int], linked: Trace, timeline: CallTimeline
) -> list[CallTimes]:
    """Times in each marked step of another timeline in which most of the calls are found."""
    events, lent = timeline.trace.events, linked.events
    source, own = host_rows(lent), host_rows(events)
    steps = []
    for step in timeline.trace.steps:
        starts = events.start_seconds[own]
        part = own[(starts >= step.start_seconds) & (starts < step.end_seconds)]
        found = partners(lent, source, events, part)
        placed = [found.get(row, NONE) if row != NONE else NONE for row in rows]
        if 2 * sum(row != NONE for row in placed) >= sum(row != NONE for row in rows) > 0:
            steps.append(timeline.times(calls, placed, (step.start_seconds, step.end_seconds)))
    return steps


def _timed(program: ReplayProgram, times: CallTimes) -> ReplayProgram:
    calls = tuple(
        replace(call, gap_seconds=gap, recorded_seconds=seconds)
        for call, gap, seconds in zip(program.calls, times.gaps_seconds, times.seconds, strict=True)
    )
    return replace(program, calls=calls)
