"""A replay watched by PyTorch's profiler, as the original was: its timeline, and what watching costs."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import thread_time
from typing import Any

from perfcast.traces.events import Trace
from perfcast.traces.kineto.reader import read_kineto
from perfcast.traces.record.quiet import quietly

#: Nodes of the chain whose backward is timed, how often without a break, and in how many turns.
_CHAIN_LENGTH, _REPEATS, _ROUNDS = 200, 10, 4


def profile_calls(
    play: Callable[[], None], repeats: int, *, path: Path | None = None, is_observed: bool = False
) -> Trace:
    """The timeline of some repetitions, each a marked step.

    Args:
        path: Where the recording is kept; ``None``: nowhere.
        is_observed: With an execution trace and arguments' shapes, as ``perfcast trace record`` takes one.
    """
    from torch.profiler import record_function

    with tempfile.TemporaryDirectory() as folder:
        target = path or Path(folder) / "replay.json"
        with _profiler(Path(folder), is_observed) as profiler:
            for number in range(repeats):
                with record_function(f"ProfilerStep#{number}"):
                    play()
            _synchronize()
        profiler.export_chrome_trace(str(target))
        return read_kineto(target)


@contextmanager
def _profiler(folder: Path, is_observed: bool) -> Iterator[Any]:
    import torch
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    observer = None
    if is_observed:
        observer = ExecutionTraceObserver().register_callback(str(folder / "et.json"))
    try:
        with (
            _quiet_logs(),
            _started(
                profile(activities=activities, record_shapes=is_observed, execution_trace_observer=observer)
            ) as profiler,
        ):
            yield profiler
    finally:
        if observer is not None:
            observer.unregister_callback()


@contextmanager
def _started(profiler: Any) -> Iterator[Any]:
    """A profiler between its start and its stop, which its libraries tell standard error of."""
    with quietly():
        profiler.__enter__()
    try:
        yield profiler
    finally:
        with quietly():
            profiler.__exit__(None, None, None)


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Without the profiler's remarks, which are about how to use it."""
    logger = logging.getLogger("torch.profiler")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _synchronize() -> None:
    import torch

    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def profile_memory(play: Callable[[], None]) -> int:
    """The most bytes that are allocated on the processor at once, beyond those from before."""
    from torch.profiler import ProfilerActivity, profile

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "memory.json"
        watching = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        with _quiet_logs(), _started(watching) as profiler:
            play()
        profiler.export_chrome_trace(str(target))
        events = json.loads(target.read_text(encoding="utf-8"))["traceEvents"]
    alive = peak = 0
    for event in events:
        if event.get("name") == "[memory]" and event["args"].get("Device Type") == 0:
            alive += int(event["args"]["Bytes"])
            peak = max(peak, alive)
    return peak


@cache
def label_seconds(*, is_observed: bool) -> float:
    """What watching costs for each event that computes nothing, such as autograd's labels.

    Backward through a chain of additions of numbers calls no operator: two labels a node. Its time with
    the profiler less its time without: lower quartiles of repetitions that take turns.
    """
    import torch

    leaf = torch.zeros(1, requires_grad=True)

    def backward_seconds() -> float:
        end = leaf
        for _ in range(_CHAIN_LENGTH):
            end = end + 1.0
        total = end.sum()
        before = thread_time()
        torch.autograd.backward(total)
        return thread_time() - before

    plain: list[float] = []
    watched: list[float] = []
    for _ in range(_ROUNDS):
        plain += [backward_seconds() for _ in range(_REPEATS)]
        with tempfile.TemporaryDirectory() as folder, _profiler(Path(folder), is_observed):
            watched += [backward_seconds() for _ in range(_REPEATS)]
    return max(_quartile(watched) - _quartile(plain), 0.0) / (2 * _CHAIN_LENGTH)


def _quartile(values: list[float]) -> float:
    return sorted(values)[len(values) // 4]
