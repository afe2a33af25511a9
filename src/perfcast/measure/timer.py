"""Robust timing: warmed up, long enough to read on a clock, medians over interleaved rounds.

Interleaving means that the cases of a group take turns, so that a disturbance of a second falls on one
round of each and not on all rounds of one. Kernels of several threads wait for the slowest, so another
program on one core stretches them manifold: samples half as long again as the fastest are set aside as
disturbed, and more are taken in their place.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Call = Callable[[], Any]

LEAST_SECONDS = 3e-3
_WARM_UP_SECONDS = 2e-3
_MOST_REPEATS = 1000
_MOST_EXTRA_ROUNDS = 6
_ENOUGH = 3
_STRETCHED = 1.5


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


def _interleaved(calls: Sequence[Call], rounds: int, seconds_of: Callable[[Call, int], float]) -> list[float]:
    repeats = [_warm_up(call, seconds_of) for call in calls]
    samples = [Samples() for _ in calls]
    for turn in range(rounds * _MOST_EXTRA_ROUNDS):
        for call, count, mine in zip(calls, repeats, samples, strict=True):
            if turn < rounds or len(mine.quiet) < min(_ENOUGH, rounds):
                # Shorter samples slip between the disturbances of a busy machine.
                count = count if turn < rounds else max(1, count // 4)
                call()
                mine.add(seconds_of(call, count) / count)
    return [mine.median for mine in samples]


class Samples:
    """Times of the same thing, of which some were disturbed."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def add(self, seconds: float) -> None:
        """One more."""
        self._seconds.append(seconds)

    @property
    def quiet(self) -> list[float]:
        """Those within half as much again of the fastest."""
        limit = _STRETCHED * min(self._seconds, default=0.0)
        return [seconds for seconds in self._seconds if seconds <= limit]

    @property
    def num_disturbed(self) -> int:
        """How many are set aside."""
        return len(self._seconds) - len(self.quiet)

    @property
    def median(self) -> float:
        """Median of the quiet samples."""
        return statistics.median(self.quiet)


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

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e-3
