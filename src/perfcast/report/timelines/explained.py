"""The timeline of an explained recording: what ran, the critical path, arrows along it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perfcast.report.timeline_events import Flow, Process, Slice, Thread, TimelineEvent
from perfcast.traces.critical_path.path import CriticalPath, PathStretch
from perfcast.traces.events import CALL_CATEGORIES, DEVICE_CATEGORIES, NONE, Category, Trace
from perfcast.traces.explain.recordings import Explanation

PATH_THREAD = 0
_SHOWN = (Category.OPERATOR, Category.ANNOTATION, *CALL_CATEGORIES, *DEVICE_CATEGORIES)


def events_of(explanation: Explanation, traces: Sequence[Trace]) -> Iterator[TimelineEvent]:
    """All ranks' host and device events, each rank with its critical path as a track of its own.

    Events on the path carry ``critical: 1``; flows join the path's stretches across tracks.
    """
    for place, (rank, trace) in enumerate(zip(explanation.ranks, traces, strict=True)):
        yield from _of_rank(trace, rank.critical_path, place + 1)


def _of_rank(trace: Trace, path: CriticalPath, process: int) -> Iterator[TimelineEvent]:
    tracks = _Tracks(trace, process)
    critical = {row for s in path.stretches for row in (s.begin_row, s.end_row)}
    events = trace.events
    starts, ends = events.start_seconds.tolist(), events.end_seconds.tolist()
    for row in events.rows_in(*_SHOWN).tolist():
        args = {"event": row, "critical": 1} if row in critical else {"event": row}
        category = events.category(row).name.lower()
        yield Slice(process, tracks.of(row), starts[row], ends[row], events.name(row), category, args)
    yield from _path(path.stretches, tracks)
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

    def names(self) -> Iterator[TimelineEvent]:
        """What the tracks are called."""
        yield Process(self.process, f"rank {self._trace.rank}")
        yield Thread(self.process, PATH_THREAD, "critical path", ordered=False)
        for (device, stream), number in self._streams.items():
            yield Thread(self.process, number, f"device {device} stream {stream}", ordered=False)
        for thread, number in self._threads.items():
            known = self._trace.events.threads_table[thread]
            yield Thread(self.process, number, known.name or f"thread {known.number}", ordered=False)


def _path(stretches: Sequence[PathStretch], tracks: _Tracks) -> Iterator[TimelineEvent]:
    number, process, name = 0, tracks.process, "critical path"
    for stretch in stretches:
        start = stretch.start_seconds
        end = start + stretch.seconds
        if stretch.seconds > 0:
            label, bound = stretch.name or stretch.kind.value, stretch.bound_by.value
            args = {"event": stretch.row, "kind": stretch.kind.value}
            yield Slice(process, PATH_THREAD, start, end, f"{bound}: {label}", bound, args)
        begin, finish = tracks.of(stretch.begin_row), tracks.of(stretch.end_row)
        if begin != finish:
            number += 1
            yield Flow("start", number, process, begin, start, name, name)
            yield Flow("end", number, process, finish, end, name, name)
