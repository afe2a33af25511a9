"""An explained recording as trace events for Perfetto: what ran, the critical path, and the device's state.

Times of the format are microseconds; they are made here and go nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from perfcast.traces.critical_path.path import CriticalPath, PathStretch
from perfcast.traces.events import CALL_CATEGORIES, DEVICE_CATEGORIES, NONE, Category, Trace
from perfcast.traces.explain.recordings import Explanation
from perfcast.units import MICRO

Event = dict[str, Any]

PATH_THREAD = 0
_SHOWN = (Category.OPERATOR, Category.ANNOTATION, *CALL_CATEGORIES, *DEVICE_CATEGORIES)


def explanation_to_trace_events(explanation: Explanation, traces: Sequence[Trace]) -> dict[str, Any]:
    """All ranks' host and device events, each rank with its critical path as a track of its own.

    Events on the path carry ``critical: 1``; flows join the path's stretches across tracks.
    """
    events: list[Event] = []
    for place, (rank, trace) in enumerate(zip(explanation.ranks, traces, strict=True)):
        events += _of_rank(trace, rank.critical_path, place + 1)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _of_rank(trace: Trace, path: CriticalPath, process: int) -> Iterator[Event]:
    tracks = _Tracks(trace, process)
    critical = {row for s in path.stretches for row in (s.begin_row, s.end_row)}
    events = trace.events
    rows = events.rows_in(*_SHOWN).tolist()
    starts = (events.start_seconds / MICRO).tolist()
    ends = (events.end_seconds / MICRO).tolist()
    for row in rows:
        event = {
            "ph": "X", "name": events.name(row), "cat": events.category(row).name.lower(), "pid": process,
            "tid": tracks.of(row), "ts": starts[row], "dur": max(0.0, ends[row] - starts[row]),
            "args": {"event": row},
        }  # fmt: skip
        if row in critical:
            event["args"]["critical"] = 1
        yield event
    yield from _path(trace, path.stretches, tracks)
    yield from tracks.names()


class _Tracks:
    """Numbers of tracks: the path, then streams, then host threads."""

    def __init__(self, trace: Trace, process: int) -> None:
        events = trace.events
        self._trace, self.process = trace, process
        chosen = events.is_in(*DEVICE_CATEGORIES)
        pairs = {*zip(events.devices[chosen].tolist(), events.streams[chosen].tolist(), strict=True)}
        self._streams = {pair: index + 1 for index, pair in enumerate(sorted(pairs))}
        threads = np.unique(events.threads[events.threads != NONE]).tolist()
        self._threads = {t: len(self._streams) + 1 + index for index, t in enumerate(threads)}

    def of(self, row: int) -> int:
        """Track of an event."""
        events = self._trace.events
        pair = (int(events.devices[row]), int(events.streams[row]))
        return self._threads.get(int(events.threads[row]), self._streams.get(pair, PATH_THREAD))

    def names(self) -> Iterator[Event]:
        """What the tracks are called."""
        yield self._name("process_name", PATH_THREAD, f"rank {self._trace.rank}")
        yield self._name("thread_name", PATH_THREAD, "critical path")
        for (device, stream), number in self._streams.items():
            yield self._name("thread_name", number, f"device {device} stream {stream}")
        for thread, number in self._threads.items():
            known = self._trace.events.threads_table[thread]
            yield self._name("thread_name", number, known.name or f"thread {known.number}")

    def _name(self, what: str, thread: int, name: str) -> Event:
        return {"ph": "M", "name": what, "pid": self.process, "tid": thread, "args": {"name": name}}


def _path(trace: Trace, stretches: Sequence[PathStretch], tracks: _Tracks) -> Iterator[Event]:
    flow = 0
    for stretch in stretches:
        start = stretch.start_seconds / MICRO
        if stretch.seconds > 0:
            name = stretch.name or stretch.kind.value
            yield {
                "ph": "X", "name": f"{stretch.bound_by.value}: {name}", "cat": stretch.bound_by.value,
                "pid": tracks.process, "tid": PATH_THREAD, "ts": start, "dur": stretch.seconds / MICRO,
                "args": {"event": stretch.row, "kind": stretch.kind.value},
            }  # fmt: skip
        begin, end = tracks.of(stretch.begin_row), tracks.of(stretch.end_row)
        if begin != end:
            flow += 1
            yield _flow("s", flow, tracks.process, begin, start)
            yield _flow("f", flow, tracks.process, end, start + stretch.seconds / MICRO)


def _flow(phase: str, number: int, process: int, thread: int, moment: float) -> Event:
    event = {"ph": phase, "id": number, "name": "critical path", "cat": "critical path", "ts": moment}
    return {**event, "pid": process, "tid": thread, **({"bp": "e"} if phase == "f" else {})}
