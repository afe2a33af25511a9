"""Slices of one track either nest or are disjoint: what overlaps in part gets a track of its own.

Viewers of trace events draw a track as a stack of calls and show nonsense, or drop slices, where two overlap
in part. Streams of recent GPUs do run kernels that overlap (programmatic dependent launch), and recorded
clocks err.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from perfcast.report.timeline_events import TICKS_PER_MICROSECOND, Flow, Slice, Thread, TimelineEvent, ticks
from perfcast.units import MICRO

#: Recordings round starts and durations each for itself: what ends this much after its caller ended with it.
_TOLERANCE = TICKS_PER_MICROSECOND

_Track = tuple[int, int]


@dataclass
class _Lanes:
    """Tracks for the slices of one; ``ends`` are those of the open slices of each, the outermost first."""

    ends: list[list[int]] = field(default_factory=list)

    def take(self, start: int, end: int) -> tuple[int, int]:
        """The first track that a slice fits, and its end there."""
        for lane, stack in enumerate(self.ends):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1] + _TOLERANCE:
                end = min(end, stack[-1]) if stack else end
                stack.append(end)
                return lane, end
        self.ends.append([end])
        return len(self.ends) - 1, end


def nest_slices(events: Iterable[TimelineEvent]) -> list[TimelineEvent]:
    """The events in their order; slices that overlap others of their track in part stand on further ones."""
    found = list(events)
    tracks: dict[_Track, list[int]] = defaultdict(list)
    for place, event in enumerate(found):
        if isinstance(event, Slice):
            tracks[event.process, event.thread].append(place)
    numbers = _FreeThreads(found)
    for track, places in tracks.items():
        _nest_track(found, track, places, numbers)
    return [numbers.moved(event) if isinstance(event, Flow) else event for event in found] + numbers.threads


class _FreeThreads:
    """Numbers and names of further tracks, and what moved there."""

    def __init__(self, events: Iterable[TimelineEvent]) -> None:
        self._names: dict[_Track, Thread] = {}
        self._last: dict[int, int] = defaultdict(int)
        self._moved: dict[tuple[int, int, int], int] = {}
        self._further: dict[tuple[int, int, int], int] = {}
        self.threads: list[TimelineEvent] = []
        for event in events:
            if isinstance(event, Thread):
                self._names[event.process, event.thread] = event
            if isinstance(event, Thread | Slice):
                self._last[event.process] = max(self._last[event.process], event.thread)

    def move(self, track: _Track, lane: int, start: int, end: int) -> int:
        """The number of a track's further lane, on which a slice stands."""
        process, thread = track
        if (process, thread, lane) not in self._further:
            self._last[process] += 1
            number = self._further[process, thread, lane] = self._last[process]
            known = self._names.get(track)
            name = f"{known.name if known else f'thread {thread}'} ({lane + 1})"
            self.threads.append(Thread(process, number, name, known.ordered if known else False))
        number = self._further[process, thread, lane]
        self._moved[process, thread, start] = self._moved[process, thread, end] = number
        return number

    def stays(self, track: _Track, start: int, end: int) -> None:
        """What arrows are tied to stays where a slice does."""
        for at in (start, end):
            self._moved.pop((*track, at), None)

    def moved(self, flow: Flow) -> Flow:
        """An arrow's end on the track of the slice that it belongs to."""
        number = self._moved.get((flow.process, flow.thread, ticks(flow.seconds)))
        return flow if number is None else replace(flow, thread=number)


def _nest_track(found: list[TimelineEvent], track: _Track, places: list[int], numbers: _FreeThreads) -> None:
    spans = []
    for place in places:
        event = found[place]
        if isinstance(event, Slice):
            start = ticks(event.start_seconds)
            spans.append((start, -max(ticks(event.end_seconds), start), place, event))
    lanes = _Lanes()
    for start, negative_end, place, event in sorted(spans, key=lambda span: span[:3]):
        lane, end = lanes.take(start, -negative_end)
        if end != -negative_end:
            event = replace(event, end_seconds=end / TICKS_PER_MICROSECOND * MICRO)
        if lane:
            event = replace(event, thread=numbers.move(track, lane, start, end))
        else:
            numbers.stays(track, start, end)
        found[place] = event
