"""Recordings of ranks as programs on one clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfcast.core.garbage import garbage_collection_paused
from perfcast.errors import TraceError
from perfcast.traces.collectives.matching import CollectiveMember, match
from perfcast.traces.collectives.sizes import TimedCollective, find_collectives
from perfcast.traces.events import Step, Trace
from perfcast.traces.link.kernels import link_kernels, nest
from perfcast.traces.timeline.build import build_program
from perfcast.traces.timeline.clocks import clock_errors
from perfcast.traces.timeline.program import RankProgram
from perfcast.units import GIGA


def build_ranks(
    traces: Sequence[Trace], step_numbers: Sequence[int] | None = None
) -> tuple[RankProgram, ...]:
    """All ranks' programs; their collectives are joined and their starts stand on one clock.

    Args:
        step_numbers: Marked steps to take, which follow each other; None takes all.

    Raises:
        TraceError: No recording; a rank without operators on its host, or without one of the steps.
    """
    if not traces:
        raise TraceError("no recording was given")
    chosen = [_steps(trace, step_numbers) for trace in traces]
    origin = min(trace.origin_nanoseconds for trace in traces)
    zeros = [(trace.origin_nanoseconds - origin) / GIGA for trace in traces]
    programs, parts = [], []
    with garbage_collection_paused():
        for trace, steps in zip(traces, chosen, strict=True):
            nesting = nest(trace.events)
            links = link_kernels(trace.events, nesting)
            program = build_program(trace, links, steps)
            programs.append(program)
            parts.append(_parts(program, find_collectives(trace, links, nesting.parents)))
    joined = _joined(programs, parts)
    zeros = [zero - late for zero, late in zip(zeros, clock_errors(traces, joined, zeros), strict=True)]
    starts = [
        zero + (steps[0].start_seconds if steps else 0.0) for zero, steps in zip(zeros, chosen, strict=True)
    ]
    first = min(starts)
    return tuple(
        replace(program, offset_seconds=start - first) for program, start in zip(joined, starts, strict=True)
    )


def _parts(
    program: RankProgram, collectives: Sequence[TimedCollective]
) -> dict[int, CollectiveMember | None]:
    """Parts of a rank's collectives by its works, in the order in which they were asked for."""
    works = {work.row: index for index, work in enumerate(program.works)}
    ordered = sorted((one for one in collectives if one.row in works), key=lambda one: one.order)
    return {works[one.row]: one.part for one in ordered}


def _joined(
    programs: Sequence[RankProgram], parts: Sequence[Mapping[int, CollectiveMember | None]]
) -> tuple[RankProgram, ...]:
    """The programs with each collective named by its instance, where all members were recorded.

    A collective that not all recorded ranks of its group recorded equally often stays a work of its own.
    """
    places = [list(own) for own in parts]
    works = [list(program.works) for program in programs]
    for instance in match([list(own.values()) for own in parts]):
        for rank, place in instance.members:
            index = places[rank][place]
            works[rank][index] = replace(works[rank][index], collective=instance.name)
    return tuple(replace(program, works=tuple(own)) for program, own in zip(programs, works, strict=True))


def _steps(trace: Trace, numbers: Sequence[int] | None) -> tuple[Step, ...]:
    """The marked steps to take; none where none are marked and none are asked for."""
    if numbers is None:
        return trace.steps
    marked = {step.number: step for step in trace.steps}
    missing = next((number for number in numbers if number not in marked), None)
    if missing is not None:
        raise TraceError(f"{trace.source}: step {missing} is not marked; {_describe_marked(trace)}")
    return tuple(step for step in trace.steps if step.number in numbers)


def _describe_marked(trace: Trace) -> str:
    numbers = [step.number for step in trace.steps]
    if not numbers:
        return "no step is (torch.profiler marks them where a program calls its step())"
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"marked steps: {numbers[0]}:{numbers[-1]}"
    return f"marked steps: {', '.join(map(str, numbers[:20]))}{', …' if len(numbers) > 20 else ''}"
