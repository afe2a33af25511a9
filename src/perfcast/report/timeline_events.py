"""What a timeline shows: slices on threads of processes, arrows between them, numbers over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcast.units import MICRO

#: Every time is a multiple of 1/1024 µs, so that a start plus a duration is exact in binary.
TICKS_PER_MICROSECOND = 1024


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


def ticks(seconds: float) -> int:
    """A time in units of the format's resolution."""
    return round(seconds / MICRO * TICKS_PER_MICROSECOND)
