"""Collectives that a processor's own threads carry out (gloo's), as works that a program launches and awaits.

The thread that asks goes on at once; a worker thread carries the collective out, and the recording has no
event where the program waits for it. What data-parallel training asks for while gradients accumulate is
awaited when the backward pass has ended, one bucket after another. A message's event ends where the program's
wait for it does (PyTorch's ProcessGroupGloo, ``SendWork::wait``). Any other collective is awaited at once,
unless the program went on before it had ended: then in the long pause in which it ended, or nowhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.traces.collectives.recorded import RecordedCollective, recorded_collectives
from perfcast.traces.events import NONE, Category, Trace
from perfcast.traces.link.kernels import nest
from perfcast.traces.marks import WAIT
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
    known = {
        one.host_row: one
        for one in recorded_collectives(trace)
        if one.host_row != NONE and one.work_rows and start <= events.start_seconds[one.host_row] <= end
    }
    lanes = _lanes(trace, list(known.values()))
    calls = [one.host_row for lane in lanes for one in lane]
    rows = [one.work_rows[0] for lane in lanes for one in lane]
    launched = Launched(
        rows,
        calls,
        calls,
        [number for number, lane in enumerate(lanes) for _ in lane],
        tuple(f"gloo {number}" for number in range(len(lanes))),
        [start for lane in lanes for start in _starts(trace, lane)],
        events.end_seconds[rows].tolist(),
        events.start_seconds[calls].tolist(),
    )
    if not chains or not rows:
        return launched, ()
    moments = [Moment(issued, issued, launches=(work,)) for work, issued in enumerate(launched.issued)]
    waits: dict[tuple[float, float], list[int]] = {}
    host = _Host(chains[0].units, _pauses(trace, calls[0], start, end), sorted(launched.issued))
    for work in range(len(rows)):
        is_message = known[calls[work]].collective.is_message
        span = _wait_for_message(host, launched, work) if is_message else _wait(trace, host, launched, work)
        if span is not None:
            waits.setdefault(span, []).append(work)
    moments += [Moment(*span, awaits=tuple(works)) for span, works in waits.items()]
    return launched, tuple(sorted(moments, key=lambda m: (m.start, m.end)))


def _lanes(trace: Trace, found: Sequence[RecordedCollective]) -> list[list[RecordedCollective]]:
    """What runs one after another: a thread's collectives; messages only with others of one way and tag.

    What ends before an earlier one of its thread or way has ended runs beside it.
    """
    events = trace.events
    lanes: dict[tuple[tuple[int, ...], int], list[RecordedCollective]] = {}
    for one in sorted(found, key=lambda one: float(events.start_seconds[one.work_rows[0]])):
        row, beside = one.work_rows[0], 0
        message = one.collective.message(trace.rank) if one.collective.is_message else None
        way: tuple[int, ...] = message or (int(events.threads[row]),)
        while (lane := lanes.get((way, beside))) and _end(trace, lane[-1]) > _end(trace, one):
            beside += 1
        lanes.setdefault((way, beside), []).append(one)
    return list(lanes.values())


def _end(trace: Trace, one: RecordedCollective) -> float:
    return float(trace.events.end_seconds[one.work_rows[0]])


def _starts(trace: Trace, lane: Sequence[RecordedCollective]) -> list[float]:
    """When each began; a recording counts from where it was asked for, also while one before it ran."""
    starts = trace.events.start_seconds[[one.work_rows[0] for one in lane]].tolist()
    ends = [float("-inf"), *(_end(trace, one) for one in lane)]
    return [max(start, before) for start, before in zip(starts, ends[:-1], strict=True)]


@dataclass(frozen=True, slots=True)
class _Host:
    """What the first chain did: its units, its pauses' starts and ends, when it asked for collectives."""

    units: Sequence[Unit]
    pauses: tuple[Sequence[float], Sequence[float]]
    issued: Sequence[float]

    def asks_between(self, start: float, end: float) -> bool:
        """Whether the program asked for a collective meanwhile: then it did not wait for another."""
        return bisect_right(self.issued, start) < bisect_left(self.issued, end)


def _wait(trace: Trace, host: _Host, launched: Launched, work: int) -> tuple[float, float] | None:
    """From when to when the host waited for a work; an instant where it came too late to wait."""
    units, call, ended = host.units, launched.calls[work], launched.ends[work]
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
    starts, ends = host.pauses
    at = bisect_right(starts, ended) - 1
    is_paused = at >= 0 and ended <= ends[at]  # no operator runs as it ends
    if is_paused and starts[at] <= returned + LEAST_PAUSE_SECONDS:  # nothing ran from the call to the end
        since = max(returned, starts[at])
        return (since, max(since, ended))
    if ended <= returned + LEAST_PAUSE_SECONDS and not host.asks_between(returned, ended):
        return (returned, returned)
    if is_paused and ended - starts[at] >= LEAST_PAUSE_SECONDS:
        return (starts[at], ended)
    return None


def _wait_for_message(host: _Host, launched: Launched, work: int) -> tuple[float, float]:
    """Its event ends where the program's wait for it does."""
    starts, ends = host.pauses
    ended = launched.ends[work]
    at = bisect_right(starts, ended) - 1
    is_paused = at >= 0 and ended <= ends[at]
    return (max(starts[at], launched.starts[work]), ended) if is_paused else (ended, ended)


def _pauses(trace: Trace, call: int, start: float, end: float) -> tuple[list[float], list[float]]:
    """Starts and ends of the stretches in which no operator ran on a call's thread, innermost ones alone.

    An operator that waits for a collective (``_c10d_functional::wait_tensor``) is a pause too.
    """
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
    codes = [code for code, name in enumerate(events.names) if name.endswith(WAIT)]
    waits = leaves[np.isin(events.name_codes[leaves], codes)]
    paused = np.append(paused, events.start_seconds[waits])
    begins = np.append(begins, events.end_seconds[waits])
    order = np.argsort(paused, kind="stable")
    order = order[begins[order] > paused[order]]
    return paused[order].tolist(), begins[order].tolist()
