"""Recordings of ranks as programs on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.errors import TraceError
from perfcast.traces.collectives.kernels import name_collectives
from perfcast.traces.events import Step, Trace
from perfcast.traces.files.json_stream import garbage_collection_paused
from perfcast.traces.link.kernels import link_kernels
from perfcast.traces.timeline.build import build_program
from perfcast.traces.timeline.program import RankProgram
from perfcast.units import GIGA


def build_ranks(
    traces: Sequence[Trace], step_numbers: Sequence[int] | None = None
) -> tuple[RankProgram, ...]:
    """All ranks' programs; their collectives are joined and their starts stand on one clock.

    Args:
        step_numbers: Marked steps to take, which follow each other; None takes all.

    Raises:
        TraceError: No recording; a rank without operators on its host, or without any of the steps.
    """
    if not traces:
        raise TraceError("no recording was given")
    chosen = [_steps(trace, step_numbers) for trace in traces]
    with garbage_collection_paused():
        programs = [
            build_program(trace, link_kernels(trace.events), steps)
            for trace, steps in zip(traces, chosen, strict=True)
        ]
    origin = min(trace.origin_nanoseconds for trace in traces)
    starts = [
        (trace.origin_nanoseconds - origin) / GIGA + (steps[0].start_seconds if steps else 0.0)
        for trace, steps in zip(traces, chosen, strict=True)
    ]
    first = min(starts)
    placed = [replace(p, offset_seconds=start - first) for p, start in zip(programs, starts, strict=True)]
    return name_collectives(traces, placed)


def _steps(trace: Trace, numbers: Sequence[int] | None) -> tuple[Step, ...]:
    """The marked steps to take; none where none are marked and none are asked for."""
    steps = trace.steps if numbers is None else tuple(s for s in trace.steps if s.number in numbers)
    if not steps and numbers is not None:
        raise TraceError(f"{trace.source}: none of the steps asked for is marked")
    return steps
