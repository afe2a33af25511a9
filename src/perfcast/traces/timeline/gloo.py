"""Collectives that a processor's own threads carry out (gloo's), as works that a program launches and awaits.

The thread that asks goes on at once; a worker thread carries the collective out, and the recording has no
event where the program waits for it. What data-parallel training asks for while gradients accumulate is
awaited when the backward pass has ended, one bucket after another. Any other collective is awaited at once,
unless the program computed on before it had ended: then in the long pause in which it ended, or nowhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.traces.collectives.recorded import recorded_collectives
from perfcast.traces.events import NONE, Category, Trace
from perfcast.traces.link.kernels import nest
from perfcast.traces.timeline.device import Launched
from perfcast.traces.timeline.host import Chain, Unit
from perfcast.units import MICRO

#: Shorter pauses of a host's thread are its own.
LEAST_PAUSE_SECONDS = 50 * MICRO
_BACKWARD = "autograd::engine::"
_ACCUMULATION = "AccumulateGrad"


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the first chain launches works (``start`` = ``end``), or waits for some from start to end."""

    start: float
    end: float
    launches: tuple[int, ...] = ()
    awaits: tuple[int, ...] = ()


def find_gloo(
    trace: Trace, chains: Sequence[Chain], start: float, end: float
) -> tuple[Launched, tuple[Moment, ...]]:
    """Collectives asked for within a window and where the host launches and awaits them, by time."""
    events = trace.events
    asked = [
        (one.host_row, one.work_rows[0])
        for one in recorded_collectives(trace)
        if one.host_row != NONE and one.work_rows and start <= events.start_seconds[one.host_row] <= end
    ]
    lanes = {call: _lane(trace, call, row) for call, row in asked}
    threads = {lane: number for number, lane in enumerate(dict.fromkeys(lanes.values()))}
    asked.sort(key=lambda pair: (threads[lanes[pair[0]]], float(events.start_seconds[pair[1]])))
    rows, calls = [row for _, row in asked], [call for call, _ in asked]
    launched = Launched(
        rows,
        calls,
        calls,
        [threads[lanes[call]] for call in calls],
        tuple(f"gloo {number}" for number in range(len(threads))),
        events.start_seconds[rows].tolist(),
        events.end_seconds[rows].tolist(),
        events.start_seconds[calls].tolist(),
    )
    if not chains or not rows:
        return launched, ()
    moments = [Moment(issued, issued, launches=(work,)) for work, issued in enumerate(launched.issued)]
    waits: dict[tuple[float, float], list[int]] = {}
    pauses = _pauses(trace, calls[0], start, end)
    for work in range(len(rows)):
        span = _wait(trace, chains[0].units, launched, work, pauses)
        if span is not None:
            waits.setdefault(span, []).append(work)
    moments += [Moment(*span, awaits=tuple(works)) for span, works in waits.items()]
    return launched, tuple(sorted(moments, key=lambda m: (m.start, m.end)))


def _lane(trace: Trace, call: int, row: int) -> tuple[int, ...]:
    """What runs one after another: a thread's collectives; messages only with others of one way and tag."""
    asked = trace.collective_by_row.get(call)
    message = asked.message(trace.rank) if asked is not None and asked.is_message else None
    return message or (int(trace.events.threads[row]),)


def _wait(
    trace: Trace,
    units: Sequence[Unit],
    launched: Launched,
    work: int,
    pauses: tuple[Sequence[float], Sequence[float]],
) -> tuple[float, float] | None:
    """From when to when the host waited for a work; an instant where it came too late to wait."""
    call, ended = launched.calls[work], launched.ends[work]
    returned = float(trace.events.end_seconds[call])
    place = max(bisect_right([u.start for u in units], launched.issued[work]) - 1, 0)
    if units and units[place].name.startswith(_BACKWARD) and _ACCUMULATION in units[place].name:
        last = place
        while last + 1 < len(units) and units[last + 1].name.startswith(_BACKWARD):
            last += 1
        until = units[last + 1].start if last + 1 < len(units) else float("inf")
        since = units[last].end
        if ended > until:  # buckets are awaited and copied back one after another
            since = units[max(bisect_right([u.start for u in units], ended) - 1, last)].end
        return (since, max(since, ended))
    starts, ends = pauses
    at = bisect_right(starts, returned + LEAST_PAUSE_SECONDS) - 1
    if at >= 0 and ends[at] >= ended and starts[at] <= ended:  # nothing ran from the call to the end
        return (returned, max(returned, ended))
    if ended <= returned + LEAST_PAUSE_SECONDS:
        return (returned, returned)
    at = bisect_right(starts, ended) - 1
    if at >= 0 and ended <= ends[at] and ended - starts[at] >= LEAST_PAUSE_SECONDS:
        return (starts[at], ended)
    return None


def _pauses(trace: Trace, call: int, start: float, end: float) -> tuple[list[float], list[float]]:
    """Starts and ends of the stretches in which no operator ran on a call's thread, innermost ones alone."""
    events = trace.events
    parents = nest(events).parents
    is_outer = np.zeros(len(events), dtype=np.bool_)
    rows = events.rows_in(Category.OPERATOR)
    is_outer[parents[rows][parents[rows] != NONE]] = True
    mine = (events.threads[rows] == events.threads[call]) & ~is_outer[rows]
    mine &= (events.end_seconds[rows] >= start) & (events.start_seconds[rows] <= end)
    leaves = rows[mine]
    ends = np.maximum.accumulate(events.end_seconds[leaves])
    begins = np.append(events.start_seconds[leaves], end)
    paused = np.concatenate([[start], ends])
    is_pause = begins > paused
    return paused[is_pause].tolist(), begins[is_pause].tolist()
