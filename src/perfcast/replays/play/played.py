"""How a program is prepared, what its rehearsal finds and what its repetitions take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from perfcast.replays.communication.play import CollectiveLatency


class Preparation(Enum):
    """When given buffers are allocated and filled."""

    AHEAD = "ahead"
    LAZILY = "lazily"
    AUTO = "auto"  # ahead, where all of them fit into the memory that is free


class RunsCollectives(Protocol):
    """What carries out collectives and waits."""

    def prepare(self, index: int) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """A function for the collective that is this call; it takes the tensors received and sent."""

    def prepare_wait(self, index: int) -> Callable[[], None]:
        """A function for the wait that is this call."""

    def finish_step(self) -> None:
        """Wait for what is under way."""

    def latencies(self) -> tuple[CollectiveLatency, ...]:
        """How long each collective took."""


@dataclass(frozen=True)
class Rehearsal:
    """What happened when each call was made once under checks.

    ``failures``: reason by call that cannot run here. ``replaced``: reason by slot that does not come out
    as recorded, so that a stand-in takes its place. ``undifferentiated``: calls that only run where autograd
    does not look.
    """

    failures: dict[int, str]
    replaced: dict[int, str]
    undifferentiated: tuple[int, ...] = ()


@dataclass(frozen=True)
class PlayedSteps:
    """Seconds of each repetition of a program, of all its steps together.

    ``processor_seconds`` are those of all threads of this process. Preparation is in neither.
    """

    wall_seconds: tuple[float, ...]
    processor_seconds: tuple[float, ...]
    num_steps: int = 1
    is_interrupted: bool = False
