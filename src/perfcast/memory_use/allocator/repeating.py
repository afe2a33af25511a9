"""A sequence whose stretches repeat, followed until the allocator's state repeats too.

If the allocator is in the same state before and after some stretches, up to the names of the blocks in use,
then as many equal ones that follow do the same again, and what they do need not be followed. That may take
two or more: what one micro-batch holds until the next has made its own lies at another place each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.memory_use.allocator.caching import CachingAllocator
from perfcast.memory_use.allocator.events import AllocatorEvent, Free
from perfcast.memory_use.allocator.settings import AllocatorSettings
from perfcast.memory_use.allocator.simulate import AllocatorTrace, OutOfMemory, Run


@dataclass(frozen=True)
class RepeatingEvents:
    """Steps with equal stretches, of which some were left out of each step.

    Attributes:
        events: What is left.
        step_starts: Events at which the steps begin.
        bounds: For each step the events at which its equal stretches begin, and the end of the last.
        num_left_out: Stretches that each step has besides.
    """

    events: tuple[AllocatorEvent, ...]
    step_starts: tuple[int, ...]
    bounds: tuple[tuple[int, ...], ...]
    num_left_out: int


@dataclass(frozen=True)
class _Settled:
    """Events ``start`` to ``end`` leave the allocator as they found it, and come so many times more."""

    start: int
    end: int
    num_times_more: int


def simulate_repeating(
    asked: RepeatingEvents, settings: AllocatorSettings, capacity_bytes: int | None, device_bytes: int | None
) -> tuple[AllocatorTrace, tuple[int, ...]] | None:
    """The trace of all stretches and the events at which its steps begin; None where a step did not settle.

    Garbage collection counts requests, so that nothing repeats with it: do not ask.
    """
    assert settings.garbage_collection_threshold == 0.0, "ages of blocks are not part of a state"
    run = Run(CachingAllocator(settings, capacity_bytes, device_bytes))
    freed_at = {event.block: at for at, event in enumerate(asked.events) if isinstance(event, Free)}
    settled: list[_Settled] = []
    begin, failure = 0, None
    for bounds in (*asked.bounds, (len(asked.events),)):
        found, states = None, list[tuple[object, ...]]()
        for place, bound in enumerate(bounds):
            failure = _follow(run, asked.events, begin, bound)
            if failure is not None:
                return _written_out(asked, run.trace(failure), settled)
            begin = bound
            if found is None and len(bounds) > 1:
                states.append(run.state(bound, freed_at, bounds[-1]))
                period = _period(states)
                if asked.num_left_out % max(period, 1) == 0 < period and _are_equal(bounds[place - period :]):
                    found = _Settled(bounds[place - period], bound, asked.num_left_out // period)
        if found is not None:
            settled.append(found)
        elif len(bounds) > 1:
            return None
    return _written_out(asked, run.trace(None), settled)


def _follow(run: Run, events: Sequence[AllocatorEvent], begin: int, end: int) -> OutOfMemory | None:
    for index in range(begin, end):
        if not run.apply(index, events[index]):
            return run.failure(index, events[index])
    return None


def _period(states: Sequence[tuple[object, ...]]) -> int:
    """Stretches since the last state was there before; 0 if it was not."""
    return next((ago for ago in range(1, len(states)) if states[-1 - ago] == states[-1]), 0)


def _are_equal(bounds: Sequence[int]) -> bool:
    return len(set(np.diff(bounds).tolist())) == 1


def _written_out(
    asked: RepeatingEvents, trace: AllocatorTrace, settled: Sequence[_Settled]
) -> tuple[AllocatorTrace, tuple[int, ...]]:
    def whole(column: Integers) -> Integers:
        parts, at = [], 0
        for stretch in settled:
            parts += [
                column[at : stretch.end],
                *[column[stretch.start : stretch.end]] * stretch.num_times_more,
            ]
            at = stretch.end
        return np.concatenate([*parts, column[at:]])

    def moved(event: int) -> int:
        return event + sum((s.end - s.start) * s.num_times_more for s in settled if s.end <= event)

    failure = trace.failure
    whole_trace = replace(
        trace,
        allocated_bytes=whole(trace.allocated_bytes),
        reserved_bytes=whole(trace.reserved_bytes),
        inactive_split_bytes=whole(trace.inactive_split_bytes),
        num_segments=whole(trace.num_segments),
        failure=None if failure is None else replace(failure, event=moved(failure.event)),
    )
    return whole_trace, tuple(moved(start) for start in asked.step_starts)
