"""Trace events, the JSON that Perfetto and chrome://tracing open: one writer for every timeline.

A result yields what happened when; times in the format are microseconds, made here and nowhere else. Every
time is a multiple of 1/1024 µs, so that a start plus a duration is exact in binary and neighbours touch
without overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perfcast.units import MICRO

TICKS_PER_MICROSECOND = 1024

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Process:
    """A process's name, and its place among others; None leaves that to the viewer."""

    process: int
    name: str
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread's name; threads stand in the order of their numbers where they are ``ordered``."""

    process: int
    thread: int
    name: str
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that takes time on a thread."""

    process: int
    thread: int
    start_seconds: float
    end_seconds: float
    name: str
    category: str
    args: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flow:
    """One end of an arrow between slices; an arrow's two ends have its number and name."""

    phase: Literal["start", "end"]
    number: int
    process: int
    thread: int
    seconds: float
    name: str
    category: str


@dataclass(frozen=True, slots=True)
class Counter:
    """A number that holds from a moment on."""

    process: int
    seconds: float
    name: str
    values: Mapping[str, float]


TimelineEvent = Process | Thread | Slice | Flow | Counter


def trace_events(events: Iterable[TimelineEvent], about: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Events in the format, in the order in which they come.

    Args:
        about: What the viewer shows of the whole.
    """
    written: dict[str, Any] = {
        "displayTimeUnit": "ms",
        "traceEvents": [entry for event in events for entry in _write(event)],
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


def ticks(seconds: float) -> int:
    """A time in units of the format's resolution."""
    return round(seconds / MICRO * TICKS_PER_MICROSECOND)
