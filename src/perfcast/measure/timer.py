"""Robust timing: warmed up, long enough to read on a clock, medians over interleaved rounds.

Interleaving means that the cases of a group take turns, so that a disturbance of a second falls on one
round of each and not on all rounds of one.
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
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, count, mine in zip(calls, repeats, samples, strict=True):
            call()
            mine.append(seconds_of(call, count) / count)
    return [statistics.median(mine) for mine in samples]


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
