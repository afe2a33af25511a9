"""Trace events, the JSON that Perfetto and chrome://tracing open: one writer for every timeline.

A result yields what happened when; times in the format are microseconds, made here and nowhere else. Every
time is a multiple of 1/1024 µs, so that a start plus a duration is exact in binary and neighbours touch
without overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perfcast.report.nested_tracks import nest_slices
from perfcast.report.timeline_events import (
    TICKS_PER_MICROSECOND,
    Counter,
    Flow,
    Process,
    Slice,
    Thread,
    TimelineEvent,
    ticks,
)

Event = dict[str, Any]


def trace_events(events: Iterable[TimelineEvent], about: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Events in the format, in the order in which they come; slices of a track nest or are disjoint.

    Args:
        about: What the viewer shows of the whole.
    """
    written: dict[str, Any] = {
        "displayTimeUnit": "ms",
        "traceEvents": [entry for event in nest_slices(events) for entry in _write(event)],
    }
    return written | ({"otherData": dict(about)} if about else {})


def _write(event: TimelineEvent) -> list[Event]:
    match event:
        case Process():
            found = [_about("process_name", event.process, 0, name=event.name)]
            if event.order is not None:
                found.append(_about("process_sort_index", event.process, 0, sort_index=event.order))
            return found
        case Thread():
            found = [_about("thread_name", event.process, event.thread, name=event.name)]
            if event.ordered:
                place = _about("thread_sort_index", event.process, event.thread, sort_index=event.thread)
                found.append(place)
            return found
        case Slice():
            return [_slice(event)]
        case Flow():
            return [_flow(event)]
        case Counter():
            return [
                {
                    "ph": "C",
                    "name": event.name,
                    "pid": event.process,
                    "ts": ticks(event.seconds) / TICKS_PER_MICROSECOND,
                    "args": dict(event.values),
                }
            ]


def _about(what: str, process: int, thread: int, **args: object) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def _slice(event: Slice) -> Event:
    start, end = ticks(event.start_seconds), ticks(event.end_seconds)
    return {
        "ph": "X",
        "name": event.name,
        "cat": event.category,
        "pid": event.process,
        "tid": event.thread,
        "ts": start / TICKS_PER_MICROSECOND,
        "dur": max(end - start, 0) / TICKS_PER_MICROSECOND,
        "args": dict(event.args),
    }


def _flow(event: Flow) -> Event:
    """An end of an arrow is tied to the slice that encloses its time."""
    found: Event = {
        "ph": "s" if event.phase == "start" else "f",
        "name": event.name,
        "cat": event.category,
        "id": event.number,
        "pid": event.process,
        "tid": event.thread,
        "ts": ticks(event.seconds) / TICKS_PER_MICROSECOND,
    }
    return found if event.phase == "start" else found | {"bp": "e"}
