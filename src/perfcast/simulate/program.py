"""What the engine runs: tasks on streams, with dependencies and collectives.

A stream runs one task at a time, in the order in which its tasks were added (a GPU stream, a host thread),
or, where it is a pool, whichever task is ready, lowest ``priority`` number first. A collective is a
collective: one task for each member, which start together once the last of them could, and end together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from perfcast.errors import PlanError


@dataclass(frozen=True, slots=True)
class Lane:
    """A stream of a program.

    Attributes:
        device: Where it runs; streams of one device slow each other down. -1: neither slows nor is slowed.
        communicates: Which of the two sides of a device it is on: communication, or compute.
        is_pool: Whether any task that is ready may go next, instead of the first that was added.
    """

    name: str
    device: int = -1
    communicates: bool = False
    is_pool: bool = False


@dataclass(frozen=True)
class Program:
    """Tasks in columns. The order of tasks is the order of issue on their streams.

    Attributes:
        streams: Indices into ``lanes``, one for each task.
        seconds: Durations where nothing slows the task down, at least 0.
        waiting, awaited: Pairs of tasks: the first starts when the second has ended.
        collectives: Of each task the collective that it is a member of, or -1. A collective takes as long as
            its longest member.
        collective_sizes: Members that each collective must have.
        slowdowns: Of each task, at least 1: its duration grows by this factor while its device runs tasks of
            the other side, compute or communications.
        priorities: Of each task; the lower, the earlier. They order pools, and events of one moment.
        labels: Of each task, for messages and timelines.
    """

    lanes: Sequence[Lane]
    streams: Sequence[int]
    seconds: Sequence[float]
    waiting: Sequence[int]
    awaited: Sequence[int]
    collectives: Sequence[int] = ()
    collective_sizes: Sequence[int] = ()
    slowdowns: Sequence[float] = ()
    priorities: Sequence[int] = ()
    labels: Sequence[str] = ()

    @property
    def num_tasks(self) -> int:
        """Of all streams."""
        return len(self.streams)

    def describe(self, task: int) -> str:
        """A task by its label and stream: ``'send 3' on 'stage 1 pipeline'``."""
        label = self.labels[task] if self.labels else ""
        return f"{label or f'task {task}'!r} on {self.lanes[self.streams[task]].name!r}"


@dataclass
class ProgramBuilder:
    """Grows a program task by task."""

    _lanes: list[Lane] = field(default_factory=list)
    _streams: list[int] = field(default_factory=list)
    _seconds: list[float] = field(default_factory=list)
    _waiting: list[int] = field(default_factory=list)
    _awaited: list[int] = field(default_factory=list)
    _collectives: list[int] = field(default_factory=list)
    _collective_sizes: list[int] = field(default_factory=list)
    _slowdowns: list[float] = field(default_factory=list)
    _priorities: list[int] = field(default_factory=list)
    _labels: list[str] = field(default_factory=list)

    @property
    def num_tasks(self) -> int:
        """Added so far."""
        return len(self._streams)

    def add_lane(self, lane: Lane) -> int:
        """A new stream; returns its index."""
        self._lanes.append(lane)
        return len(self._lanes) - 1

    def add_collective(self, num_members: int) -> int:
        """A new collective; returns its index, to be given to as many tasks."""
        self._collective_sizes.append(num_members)
        return len(self._collective_sizes) - 1

    def add(
        self,
        stream: int,
        seconds: float,
        after: Iterable[int] = (),
        label: str = "",
        *,
        collective: int = -1,
        slowdown: float = 1.0,
        priority: int = 0,
    ) -> int:
        """A new task behind those of its stream; returns its index.

        Raises:
            PlanError: A negative duration, or a slowdown below 1.
        """
        if not (seconds >= 0 and slowdown >= 1):
            raise PlanError(f"task {label!r} of {seconds} s and slowdown {slowdown}: at least 0 s and 1")
        task = len(self._streams)
        self._streams.append(stream)
        self._seconds.append(seconds)
        self._collectives.append(collective)
        self._slowdowns.append(slowdown)
        self._priorities.append(priority)
        self._labels.append(label)
        for awaited in after:
            self._waiting.append(task)
            self._awaited.append(awaited)
        return task

    def wait(self, task: int, awaited: int) -> None:
        """Let a task wait for another, which may have been added later."""
        self._waiting.append(task)
        self._awaited.append(awaited)

    def build(self) -> Program:
        """What was added so far."""
        return Program(
            self._lanes,
            self._streams,
            self._seconds,
            self._waiting,
            self._awaited,
            self._collectives,
            self._collective_sizes,
            self._slowdowns,
            self._priorities,
            self._labels,
        )
