"""Collectives that are not carried out: each takes a given time, as if others took part."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

from perfcast.replays.communication.groups import GroupKey
from perfcast.replays.program.program import ReplayProgram

#: A sleeping thread wakes late; so much before the end it begins to look at the clock.
_LATE_SECONDS = 1.5e-4


class Delays(Protocol):
    """Work that only lasts."""

    def start(self, group: GroupKey, seconds: float) -> Any:
        """Work of a group that lasts so long once the work before it on that group is done."""


def delays_of(program: ReplayProgram) -> Delays:
    """On the processor, or on a stream of the GPU where the program's tensors are there."""
    is_on_device = any(buffer.device.startswith("cuda") for buffer in program.buffers)
    return DeviceDelays() if is_on_device else HostDelays()


@dataclass(frozen=True, slots=True)
class _HostDelay:
    end: float

    def wait(self) -> None:
        """Sleep until the end; the processor is free meanwhile, as while one waits for a network."""
        left = self.end - time.perf_counter()
        if left > _LATE_SECONDS:
            time.sleep(left - _LATE_SECONDS)
        while time.perf_counter() < self.end:
            pass


class HostDelays:
    """By the clock: the host that waits sleeps."""

    def __init__(self) -> None:
        self._busy_until: dict[GroupKey, float] = {}

    def start(self, group: GroupKey, seconds: float) -> _HostDelay:
        """Work that ends ``seconds`` from now, or from the end of the group's work before it."""
        end = max(time.perf_counter(), self._busy_until.get(group, 0.0)) + seconds
        self._busy_until[group] = end
        return _HostDelay(end)


@dataclass(frozen=True, slots=True)
class _DeviceDelay:
    event: Any

    def wait(self) -> None:
        """Let the current stream wait; the host goes on."""
        import torch

        torch.cuda.current_stream().wait_event(self.event)


class DeviceDelays:
    """On a stream for each group, which counts cycles of the GPU; the host goes on."""

    def __init__(self) -> None:
        self._streams: dict[GroupKey, Any] = {}
        self._cycles_per_second = 0.0

    def start(self, group: GroupKey, seconds: float) -> _DeviceDelay:
        """Work that lasts ``seconds`` after what was launched before and after the group's work before it."""
        import torch

        from perfcast.torch_internals.eager import spin_gpu

        if group not in self._streams:
            self._streams[group] = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._cycles_per_second = self._cycles_per_second or _cycles_per_second()
        stream = self._streams[group]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            spin_gpu(round(seconds * self._cycles_per_second))  # type: ignore[no-untyped-call]
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(stream)
        return _DeviceDelay(event)


def _cycles_per_second(cycles: int = 20_000_000) -> float:
    """How fast the GPU counts, by the second of two runs."""
    import torch

    from perfcast.torch_internals.eager import spin_gpu

    rate = 0.0
    for _ in range(2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        spin_gpu(cycles)  # type: ignore[no-untyped-call]
        end.record()
        torch.cuda.synchronize()
        rate = cycles * 1000 / begin.elapsed_time(end)
    return rate
