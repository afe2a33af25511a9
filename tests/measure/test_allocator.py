"""The replay on a stand-in for the device, and on a real one where there is one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from perfcast.errors import InputError
from perfcast.measure.allocator import replay_allocator
from perfcast.memory_use.allocator import (
    Allocate,
    AllocatorSettings,
    EmptyCache,
    Free,
    RecordStream,
    Synchronize,
    simulate_allocator,
)
from perfcast.memory_use.allocator.blocks import Block
from perfcast.memory_use.allocator.caching import CachingAllocator
from perfcast.units import MIB

EVENTS = [
    Allocate(0, 40_000), Allocate(1, 5 * MIB), Allocate(2, 30 * MIB, stream=1), RecordStream(1, 1), Free(1),
    Allocate(3, 6 * MIB), Synchronize(1), Allocate(4, 5 * MIB), Free(2), Free(4), Synchronize(), EmptyCache(),
]  # fmt: skip


class SimulatedDevice:
    """A device whose allocator is the simulated one."""

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self._allocator = CachingAllocator(AllocatorSettings(), capacity_bytes)
        self.synchronize = self._allocator.synchronize
        self.empty_cache = self._allocator.release_cached

    def allocate(self, num_bytes: int, stream: int) -> Tensor | None:
        block = self._allocator.allocate(num_bytes, stream)
        return None if block is None else Tensor(self._allocator, block)

    def record_stream(self, tensor: Tensor, stream: int) -> None:
        self._allocator.record_stream(tensor.block, stream)

    def held_bytes(self) -> tuple[int, int]:
        return self._allocator.allocated_bytes, self._allocator.memory.reserved_bytes


class Tensor:
    """Frees its block with its last reference, as a tensor does."""

    def __init__(self, allocator: CachingAllocator, block: Block) -> None:
        self.block, self._allocator = block, allocator

    def __del__(self) -> None:
        self._allocator.free(self.block)


def test_every_event_reaches_the_device_in_order_and_is_read_after_it():
    replayed = replay_allocator(EVENTS, SimulatedDevice())
    simulated = simulate_allocator(EVENTS, AllocatorSettings())
    assert np.array_equal(replayed.allocated_bytes, simulated.allocated_bytes)
    assert np.array_equal(replayed.reserved_bytes, simulated.reserved_bytes)
    assert replayed.failed_at is None


def test_the_replay_ends_where_memory_runs_out():
    replayed = replay_allocator(EVENTS, SimulatedDevice(capacity_bytes=30 * MIB))
    assert replayed.failed_at == 2
    assert len(replayed.reserved_bytes) == 3


def test_nothing_asked_is_nothing_held():
    assert replay_allocator([], SimulatedDevice()).reserved_bytes.shape == (0,)


def test_without_a_device_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="no CUDA device here"):
        replay_allocator(EVENTS)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_simulation_follows_the_real_allocator():
    replayed, simulated = replay_allocator(EVENTS), simulate_allocator(EVENTS, AllocatorSettings())
    assert np.array_equal(replayed.allocated_bytes, simulated.allocated_bytes)
    assert np.array_equal(replayed.reserved_bytes, simulated.reserved_bytes)
