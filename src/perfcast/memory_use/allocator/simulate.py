"""A sequence of requests through the allocator, and what it holds after each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.errors import InputError
from perfcast.memory_use.allocator.blocks import Block
from perfcast.memory_use.allocator.caching import CachingAllocator
from perfcast.memory_use.allocator.context import cublas_workspace_bytes
from perfcast.memory_use.allocator.events import (
    Allocate,
    AllocatorEvent,
    EmptyCache,
    Free,
    RecordStream,
    Synchronize,
    allocation_events,
)
from perfcast.memory_use.allocator.settings import AllocatorSettings
from perfcast.units import format_bytes


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The request that could not be met.

    Attributes:
        event: Its index in the sequence.
        capacity_bytes: What the driver could give in all.
        allocated_bytes, reserved_bytes: Held when it failed, after all that could be given back was.
    """

    event: int
    requested_bytes: int
    stream: int
    allocated_bytes: int
    reserved_bytes: int
    capacity_bytes: int

    def __str__(self) -> str:
        idle = self.reserved_bytes - self.allocated_bytes
        return (
            f"out of memory at event {self.event}: {format_bytes(self.requested_bytes)} asked for, of "
            f"{format_bytes(self.capacity_bytes)} {format_bytes(self.allocated_bytes)} are in use and "
            f"{format_bytes(idle)} lie in segments that are partly in use"
        )


@dataclass(frozen=True)
class AllocatorTrace:
    """What is held after each event, in bytes of shape (number of events,).

    A sequence that runs out of memory ends with the event that did. ``peak_reserved_bytes`` counts what was
    held for a moment inside an event too.

    Attributes:
        inactive_split_bytes: Free, but in a segment that is partly in use; 0 for growing segments.
        num_segments: Held of the driver.
        num_retries: How often the driver had to be asked again after the cache was emptied.
    """

    allocated_bytes: Integers
    reserved_bytes: Integers
    inactive_split_bytes: Integers
    num_segments: Integers
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    num_retries: int
    failure: OutOfMemory | None = field(default=None)

    @property
    def failed_at(self) -> int | None:
        """Index of the event that ran out of memory, or None."""
        return None if self.failure is None else self.failure.event

    @property
    def fragmentation(self) -> Floats:
        """1 - allocated / reserved after each event; 0 where nothing is reserved."""
        held = np.maximum(self.reserved_bytes, 1)
        return np.where(self.reserved_bytes > 0, 1.0 - self.allocated_bytes / held, 0.0)

    @property
    def fragmentation_at_peak(self) -> float:
        """Share of what is reserved at most that the largest sum of blocks at that time leaves unused."""
        if self.reserved_bytes.size == 0 or self.reserved_bytes.max() == 0:
            return 0.0
        at_peak = self.reserved_bytes == self.reserved_bytes.max()
        return float(1.0 - self.allocated_bytes[at_peak].max() / self.reserved_bytes.max())


def simulate_allocator(
    events: Iterable[AllocatorEvent],
    settings: AllocatorSettings,
    capacity_bytes: int | None = None,
    *,
    device_bytes: int | None = None,
) -> AllocatorTrace:
    """Follow a sequence of requests until its end or until memory runs out.

    Args:
        capacity_bytes: What the driver can give to this process: the device's memory without the context and
            other processes. None: no limit.
        device_bytes: The whole device, to which fractions in the settings refer; ``capacity_bytes`` if None.

    Raises:
        InputError: An event that no program can issue (a block freed twice, a request of no bytes), or a
            fraction of the memory in the settings without a capacity.
    """
    if capacity_bytes is None and device_bytes is None:
        _check_needs_no_capacity(settings)
    elif min(n for n in (capacity_bytes, device_bytes) if n is not None) < 0:
        raise InputError(f"a device cannot hold {capacity_bytes} bytes; give a capacity of 0 or more")
    run = Run(CachingAllocator(settings, capacity_bytes, device_bytes))
    failure = None
    for index, event in enumerate(events):
        if not run.apply(index, event):
            failure = run.failure(index, event)
            break
    return run.trace(failure)


def simulate_graph(
    graph: Graph,
    device: Device,
    settings: AllocatorSettings | None = None,
    *,
    capacity_bytes: int | None = None,
    steps: int = 3,
) -> AllocatorTrace:
    """What a program that runs a graph again and again reserves on a device, cuBLAS's workspaces included.

    The first step finds no cache and makes the optimizer's state, the second reuses what the first left; a
    third shows the steady state. Without a capacity nothing is ever given back, so ``peak_reserved_bytes`` is
    what the steady state holds.
    """
    events = allocation_events(graph, steps=steps, workspace_bytes=cublas_workspace_bytes(device))
    device_bytes = device.memory_bytes if capacity_bytes is not None else None
    chosen = AllocatorSettings() if settings is None else settings
    return simulate_allocator(events, chosen, capacity_bytes, device_bytes=device_bytes)


def _check_needs_no_capacity(settings: AllocatorSettings) -> None:
    for key, is_set in (
        ("garbage_collection_threshold", settings.garbage_collection_threshold > 0.0),
        ("per_process_memory_fraction", settings.memory_fraction < 1.0),
    ):
        if is_set:
            raise InputError(f"allocator setting {key} is a part of the memory: give a capacity with it")


class Run:
    """Blocks by their numbers in the events, and the rows of the trace."""

    def __init__(self, allocator: CachingAllocator) -> None:
        self._allocator = allocator
        self._blocks: dict[int, Block] = {}
        self._rows: list[tuple[int, int, int, int]] = []

    def apply(self, index: int, event: AllocatorEvent) -> bool:
        """Carry an event out and note what is held then; whether it could be carried out."""
        is_met = self._carry_out(index, event)
        allocator, memory = self._allocator, self._allocator.memory
        row = (allocator.allocated_bytes, memory.reserved_bytes, allocator.inactive_split_bytes)
        self._rows.append((*row, memory.num_segments))
        return is_met

    def failure(self, index: int, event: AllocatorEvent) -> OutOfMemory:
        """What is known of a request that was not met."""
        assert isinstance(event, Allocate), "nothing else can fail"
        memory = self._allocator.memory
        capacity = min(memory.capacity_bytes, memory.allowed_bytes)
        allocated, reserved = self._allocator.allocated_bytes, memory.reserved_bytes
        return OutOfMemory(index, event.num_bytes, event.stream, allocated, reserved, capacity)

    def state(self, index: int, freed_at: Mapping[int, int], end: int) -> tuple[object, ...]:
        """All that decides what comes after event ``index``, up to the names of blocks.

        A block that is freed before event ``end`` is known by how far it is from here, others by name.
        """
        held = []
        for name, block in self._blocks.items():
            freed = freed_at.get(name, end)
            known_as = (0, freed - index) if freed < end else (1, name)
            held.append((block.address, block.size, block.used_on, known_as))
        return sorted(held), self._allocator.state()

    def trace(self, failure: OutOfMemory | None) -> AllocatorTrace:
        """The rows as arrays, one per column."""
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 4)
        allocated, reserved, inactive, segments = (column.copy() for column in rows.T)
        return AllocatorTrace(
            allocated_bytes=allocated,
            reserved_bytes=reserved,
            inactive_split_bytes=inactive,
            num_segments=segments,
            peak_allocated_bytes=int(allocated.max(initial=0)),
            peak_reserved_bytes=self._allocator.memory.peak_reserved_bytes,
            num_retries=self._allocator.num_retries,
            failure=failure,
        )

    def _carry_out(self, index: int, event: AllocatorEvent) -> bool:
        if isinstance(event, Allocate):
            return self._allocate(index, event)
        if isinstance(event, Free):
            self._allocator.free(self._held(index, event.block, remove=True))
        elif isinstance(event, RecordStream):
            self._allocator.record_stream(self._held(index, event.block), event.stream)
        elif isinstance(event, Synchronize):
            self._allocator.synchronize(event.stream)
        elif isinstance(event, EmptyCache):
            self._allocator.release_cached()
        return True

    def _allocate(self, index: int, event: Allocate) -> bool:
        if event.num_bytes <= 0:
            raise InputError(f"event {index}: a request of {event.num_bytes} bytes; leave such events out")
        if event.block in self._blocks:
            raise InputError(f"event {index}: block {event.block} is in use; name a new one")
        block = self._allocator.allocate(event.num_bytes, event.stream)
        if block is None:
            return False
        self._blocks[event.block] = block
        return True

    def _held(self, index: int, name: int, remove: bool = False) -> Block:
        block = self._blocks.pop(name, None) if remove else self._blocks.get(name)
        if block is None:
            raise InputError(f"event {index}: block {name} is not in use")
        return block
