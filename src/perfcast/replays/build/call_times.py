"""When calls ran on a timeline, and what the host did between them.

A gap is the time from the end of a call to the start of the next one. Part of it is the profiler's: every
label in between (autograd's nodes, optimizers) costs time that the program does not pay when nobody
watches; that is taken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.replays.communication.times import collective_spans
from perfcast.replays.program.program import CallKind, ReplayCall
from perfcast.traces.events import NONE, Category, Events, Trace
from perfcast.traces.marks import GLOO, STEP_MARK


@dataclass(frozen=True)
class CallTimes:
    """Host seconds before each call, and its own; NaN where the timeline does not have it."""

    gaps_seconds: tuple[float, ...]
    seconds: tuple[float, ...]


def median_times(times: Sequence[CallTimes]) -> CallTimes:
    """The median of several steps, call by call."""
    gaps = _median([one.gaps_seconds for one in times])
    return CallTimes(gaps, _median([one.seconds for one in times]))


def _median(rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    table = np.array(rows, dtype=np.float64)
    known = ~np.isnan(table).all(axis=0)
    found = np.full(table.shape[1], np.nan)
    found[known] = np.nanmedian(table[:, known], axis=0)
    return tuple(found.tolist())


class CallTimeline:
    """A trace ready to be asked for calls' times; ``label_seconds`` is the profiler's cost of an event."""

    def __init__(self, trace: Trace, label_seconds: float) -> None:
        self.trace = trace
        self.label_seconds = label_seconds
        events = trace.events
        rows = host_rows(events)
        self._bounds = {
            thread: np.sort(np.concatenate([events.start_seconds[own], events.end_seconds[own]]))
            for thread in np.unique(events.threads[rows]).tolist()
            for own in [rows[events.threads[rows] == thread]]
        }
        self._exchanged = collective_spans(trace) if trace.platform == "cpu" else {}

    def times(
        self, calls: Sequence[ReplayCall], rows: Sequence[int], window: tuple[float, float] | None
    ) -> CallTimes:
        """The times of calls whose events are ``rows`` (``NONE``: not recorded), in a window if known."""
        events = self.trace.events
        gaps, seconds = [float("nan")] * len(calls), [float("nan")] * len(calls)
        before = window[0] if window else float("nan")
        waited = float("-inf")
        for index, (call, row) in enumerate(zip(calls, rows, strict=True)):
            if row == NONE:
                waited = max(waited, self._waited_until(call, rows))
                continue
            start, end = float(events.start_seconds[row]), float(events.end_seconds[row])
            gaps[index] = self._gap(max(before, waited), start, int(events.threads[row]))
            seconds[index] = end - start
            before, waited = max(before, end) if before == before else end, float("-inf")
            if call.kind is CallKind.COLLECTIVE and not call.is_asynchronous:
                waited = self._exchanged.get(row, (0.0, waited))[1]
        if window and calls and rows[-1] == NONE and calls[-1].kind is CallKind.IDLE:
            gaps[-1] = self._gap(max(before, waited), window[1], NONE)
        return CallTimes(tuple(gaps), tuple(seconds))

    def _waited_until(self, call: ReplayCall, rows: Sequence[int]) -> float:
        """When the collective ended that a call without an event of its own waits for."""
        if call.kind is not CallKind.WAIT or call.waits_for == NONE:
            return float("-inf")
        return self._exchanged.get(rows[call.waits_for], (0.0, float("-inf")))[1]

    def _gap(self, before: float, start: float, thread: int) -> float:
        """Host seconds between two instants without the profiler's cost of the labels in between."""
        if not before < start:
            return 0.0 if before == before else float("nan")
        bounds = self._bounds.get(thread)
        if bounds is None:
            return start - before
        first = np.searchsorted(bounds, before, side="right")
        num_bounds = max(int(np.searchsorted(bounds, start, side="left") - first), 0)
        return max(start - before - num_bounds / 2 * self.label_seconds, 0.0)


def host_rows(events: Events) -> Integers:
    """Operators and marked ranges on host threads, gloo's own threads and the steps' marks left out."""
    rows = events.rows_in(Category.OPERATOR, Category.ANNOTATION)
    rows = rows[events.threads[rows] != NONE]
    left_out = [code for code, name in enumerate(events.names) if name.startswith((GLOO, STEP_MARK))]
    found: Integers = rows[~np.isin(events.name_codes[rows], left_out)]
    return found
