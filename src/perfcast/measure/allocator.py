"""The requests of a program made to PyTorch's real allocator, to hold a simulation against it.

Settings are PyTorch's own: they are read from ``PYTORCH_CUDA_ALLOC_CONF`` when a process first uses CUDA.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import InputError
from perfcast.memory_use.allocator import (
    Allocate,
    AllocatorEvent,
    EmptyCache,
    Free,
    RecordStream,
    Synchronize,
)


@dataclass(frozen=True)
class ReplayedTrace:
    """What the real allocator held after each event, in bytes of shape (number of events,).

    ``failed_at`` is the index of the event that ran out of memory, the last one then; None if none did.
    """

    allocated_bytes: Integers
    reserved_bytes: Integers
    failed_at: int | None


class ReplayDevice(Protocol):
    """What a replay needs of a device."""

    def allocate(self, num_bytes: int, stream: int) -> Any | None:
        """A tensor of so many bytes made on a stream, or None if the memory does not suffice."""
        ...

    def record_stream(self, tensor: Any, stream: int) -> None:
        """Note that a stream uses a tensor."""
        ...

    def synchronize(self, stream: int | None) -> None:
        """Wait for a stream, or for all."""
        ...

    def empty_cache(self) -> None:
        """Give cached memory back."""
        ...

    def held_bytes(self) -> tuple[int, int]:
        """(allocated, reserved)."""
        ...


def replay_allocator(events: Iterable[AllocatorEvent], device: ReplayDevice | None = None) -> ReplayedTrace:
    """Make the requests for real and read what is held after each.

    Args:
        device: The current CUDA device if None.

    Raises:
        InputError: There is no CUDA device, or the process already holds memory of it.
    """
    chosen = CudaReplayDevice() if device is None else device
    tensors: dict[int, Any] = {}
    held: list[tuple[int, int]] = []
    failed_at = None
    for index, event in enumerate(events):
        if isinstance(event, Allocate):
            tensor = chosen.allocate(event.num_bytes, event.stream)
            if tensor is None:
                failed_at = index
            else:
                tensors[event.block] = tensor
            del tensor
        else:
            _apply(event, tensors, chosen)
        held.append(chosen.held_bytes())
        if failed_at is not None:
            break
    columns = np.array(held, dtype=np.int64).reshape(-1, 2)
    return ReplayedTrace(columns[:, 0].copy(), columns[:, 1].copy(), failed_at)


def _apply(
    event: Free | RecordStream | Synchronize | EmptyCache, tensors: dict[int, Any], device: ReplayDevice
) -> None:
    match event:
        case Free(block):
            del tensors[block]
        case RecordStream(block, stream):
            device.record_stream(tensors[block], stream)
        case Synchronize(stream):
            device.synchronize(stream)
        case EmptyCache():
            device.empty_cache()


class CudaReplayDevice:
    """The current CUDA device; stream 0 is the one that is current now, each other number a new stream."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise InputError("no CUDA device here: the allocator can only be replayed on one")
        torch.cuda.empty_cache()
        if torch.cuda.memory_reserved() > 0:
            raise InputError(
                f"this process already holds {torch.cuda.memory_reserved()} bytes of the device; "
                "replay in a fresh process"
            )
        self._cuda = torch.cuda
        self._streams: dict[int, Any] = {0: torch.cuda.current_stream()}

    def allocate(self, num_bytes: int, stream: int) -> Any | None:
        """See ``ReplayDevice``."""
        import torch

        try:
            with self._cuda.stream(self._stream(stream)):
                return torch.empty(num_bytes, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            return None

    def record_stream(self, tensor: Any, stream: int) -> None:
        """See ``ReplayDevice``."""
        tensor.record_stream(self._stream(stream))

    def synchronize(self, stream: int | None) -> None:
        """See ``ReplayDevice``."""
        if stream is None:
            self._cuda.synchronize()
        else:
            self._stream(stream).synchronize()

    def empty_cache(self) -> None:
        """See ``ReplayDevice``."""
        self._cuda.empty_cache()

    def held_bytes(self) -> tuple[int, int]:
        """See ``ReplayDevice``."""
        return self._cuda.memory_allocated(), self._cuda.memory_reserved()

    def _stream(self, number: int) -> Any:
        if number not in self._streams:
            self._streams[number] = self._cuda.Stream()  # type: ignore[no-untyped-call]
        return self._streams[number]
