"""Robust timing: warmed up, long enough to read on a clock, medians over interleaved rounds.

Interleaving means that the cases of a group take turns, so that a disturbance of a second falls on one
round of each and not on all rounds of one. Kernels of several threads wait for the slowest, so another
program on one core stretches them manifold. Linux counts how long each thread was ready but had no core
(the second figure of ``/proc/self/task/*/schedstat``); samples of which that was more than a fiftieth are
set aside while there are others.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

Call = Callable[[], Any]

LEAST_SECONDS = 3e-3
_WARM_UP_SECONDS = 2e-3
_MOST_REPEATS = 1000
_MOST_EXTRA_ROUNDS = 6
_ENOUGH = 3
_TOLERATED_WAIT = 0.02
_TASKS = Path("/proc/self/task")


class Timer(Protocol):
    """Seconds of one call of each, in the order given."""

    def __call__(self, calls: Sequence[Call], rounds: int) -> list[float]:
        """Time every call ``rounds`` times, in turns, and return the medians."""
        ...


def time_on_cpu(calls: Sequence[Call], rounds: int) -> list[float]:
    """Wall-clock timing for a processor that has finished when the call returns."""
    return _interleaved(calls, rounds, _host_seconds)


def time_on_cuda(calls: Sequence[Call], rounds: int) -> list[float]:
    """Timing between two events on the current stream."""
    return _interleaved(calls, rounds, _event_seconds)


def _interleaved(
    calls: Sequence[Call], rounds: int, seconds_of: Callable[[Call, int], float]
) -> list[float]:
    repeats = [_warm_up(call, seconds_of) for call in calls]
    samples = [Samples() for _ in calls]
    for turn in range(rounds * _MOST_EXTRA_ROUNDS):
        for call, count, mine in zip(calls, repeats, samples, strict=True):
            if turn < rounds or mine.num_quiet < min(_ENOUGH, rounds):
                # Shorter samples slip between the disturbances of a busy machine.
                count = count if turn < rounds else max(1, count // 4)
                call()
                with mine.watching() as taken:
                    taken.append(seconds_of(call, count) / count)
    return [mine.median for mine in samples]


class Samples:
    """Times, each with whether the system took a core away meanwhile."""

    def __init__(self) -> None:
        self.quiet: list[float] = []
        self.disturbed: list[float] = []

    @contextmanager
    def watching(self) -> Iterator[list[float]]:
        """Times put in the list are filed by what happens inside."""
        start, before = time.perf_counter(), waiting_seconds()
        taken: list[float] = []
        yield taken
        waited, spent = waiting_seconds() - before, time.perf_counter() - start
        (self.quiet if waited <= _TOLERATED_WAIT * spent else self.disturbed).extend(taken)

    @property
    def num_quiet(self) -> int:
        """Undisturbed samples so far."""
        return len(self.quiet)

    @property
    def chosen(self) -> list[float]:
        """The undisturbed samples; if there is none, the fastest of the others."""
        return self.quiet or sorted(self.disturbed)[: 1 + len(self.disturbed) // 10]

    @property
    def median(self) -> float:
        """Of the chosen ones."""
        return statistics.median(self.chosen)


def waiting_seconds() -> float:
    """How long the threads of this process were ready but had no core; 0 where the system does not say."""
    total = 0
    for task in _TASKS.glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return total * 1e-9


def _warm_up(call: Call, seconds_of: Callable[[Call, int], float]) -> int:
    """Run until warm; returns how many calls take long enough to be timed."""
    call()
    once, spent = seconds_of(call, 1), 0.0
    while spent < _WARM_UP_SECONDS:
        once = min(once, seconds_of(call, 1))
        spent += max(once, _WARM_UP_SECONDS / _MOST_REPEATS)
    return max(1, min(_MOST_REPEATS, round(LEAST_SECONDS / max(once, 1e-9))))


def _host_seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def _event_seconds(call: Call, count: int) -> float:
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()  # type: ignore[no-untyped-call]
    for _ in range(count):
        call()
    end.record()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e-3  # type: ignore[no-untyped-call]
