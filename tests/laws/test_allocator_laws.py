"""What holds for every sequence of requests under all settings."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from perfcast.memory_use.allocator import (
    Allocate,
    AllocatorEvent,
    AllocatorSettings,
    EmptyCache,
    Free,
    RecordStream,
    Synchronize,
    simulate_allocator,
)
from perfcast.memory_use.allocator.blocks import Block
from perfcast.memory_use.allocator.caching import CachingAllocator
from perfcast.memory_use.allocator.settings import UNLIMITED_BYTES
from perfcast.units import KIB, MIB

SETTINGS = st.builds(
    AllocatorSettings,
    most_split_bytes=st.sampled_from([UNLIMITED_BYTES, 20 * MIB, 40 * MIB]),
    roundup_power2_divisions=st.sampled_from([(0,) * 16, (1,) * 16, (4,) * 16]),
    expandable_segments=st.booleans(),
)
SIZES = st.one_of(
    st.integers(1, 4 * KIB), st.integers(1, 2 * MIB), st.integers(MIB, 60 * MIB),
    st.sampled_from([n * MIB for n in (1, 5, 9, 10, 21, 45)]),
)  # fmt: skip


@st.composite
def sequences(draw: st.DrawFn) -> list[AllocatorEvent]:
    """Requests that a program could make, on up to three streams."""
    events: list[AllocatorEvent] = []
    held: list[int] = []
    for index in range(draw(st.integers(0, 40))):
        kind = draw(st.sampled_from("aaaaffffrse"))
        if kind == "a" or (kind in "fr" and not held):
            events.append(Allocate(index, draw(SIZES), draw(st.integers(0, 2))))
            held.append(index)
        elif kind == "f":
            events.append(Free(held.pop(draw(st.integers(0, len(held) - 1)))))
        elif kind == "r":
            events.append(RecordStream(draw(st.sampled_from(held)), draw(st.integers(0, 2))))
        elif kind == "s":
            events.append(Synchronize(draw(st.none() | st.integers(0, 2))))
        else:
            events.append(EmptyCache())
    return events


def segments_of(blocks: list[Block]) -> list[list[Block]]:
    """The blocks of each segment that holds one of these, in order of addresses."""
    found: dict[int, list[Block]] = {}
    for block in blocks:
        while block.previous is not None:
            block = block.previous
        segment, following = [], block
        while following is not None:
            segment.append(following)
            following = following.next  # type: ignore[assignment]
        found[id(block)] = segment
    return list(found.values())


@settings(max_examples=cases(100, share=0.1), deadline=None)
@given(sequences(), SETTINGS)
def test_peaks_and_columns_agree_and_nothing_is_used_that_is_not_reserved(
    events: list[AllocatorEvent], chosen: AllocatorSettings
):
    trace = simulate_allocator(events, chosen)
    assert trace.failure is None
    assert len(trace.allocated_bytes) == len(trace.reserved_bytes) == len(events)
    assert (trace.allocated_bytes + trace.inactive_split_bytes <= trace.reserved_bytes).all()
    assert ((trace.reserved_bytes == 0) == (trace.num_segments == 0)).all()
    assert trace.peak_allocated_bytes == trace.allocated_bytes.max(initial=0)
    assert trace.peak_reserved_bytes == trace.reserved_bytes.max(initial=0) >= trace.peak_allocated_bytes
    assert ((trace.fragmentation >= 0) & (trace.fragmentation <= 1)).all()


@settings(max_examples=cases(100, share=0.1), deadline=None)
@given(sequences(), SETTINGS)
def test_blocks_tile_their_segments_and_free_neighbours_are_joined(
    events: list[AllocatorEvent], chosen: AllocatorSettings
):
    allocator, held = CachingAllocator(chosen), {}
    for event in events:
        if isinstance(event, Allocate):
            block = allocator.allocate(event.num_bytes, event.stream)
            assert block is not None
            assert block.size >= event.num_bytes
            held[event.block] = block
        elif isinstance(event, Free):
            allocator.free(held.pop(event.block))
    segments = segments_of(list(held.values()))
    for segment in segments:
        for left, right in pairwise(segment):
            assert left.address + left.size == right.address
            assert not (left.is_free and right.is_free and left.is_mapped == right.is_mapped)
    allocator.release_cached()
    segments = segments_of(list(held.values()))
    mapped = sum(b.size for segment in segments for b in segment if b.is_mapped)
    assert allocator.memory.reserved_bytes == mapped
    assert allocator.allocated_bytes == sum(block.size for block in held.values())
    free_parts = [b.size for s in segments for b in s if b.is_free and not b.granule]
    assert allocator.inactive_split_bytes == sum(free_parts)


@settings(max_examples=cases(100, share=0.1), deadline=None)
@given(sequences(), SETTINGS)
def test_when_all_is_freed_all_can_be_given_back(events: list[AllocatorEvent], chosen: AllocatorSettings):
    made = [event.block for event in events if isinstance(event, Allocate)]
    freed = {event.block for event in events if isinstance(event, Free)}
    rest = [Free(block) for block in made if block not in freed]
    trace = simulate_allocator([*events, *rest, EmptyCache()], chosen)
    assert trace.allocated_bytes[-1] == trace.reserved_bytes[-1] == trace.num_segments[-1] == 0
    assert trace.inactive_split_bytes[-1] == 0


@settings(max_examples=cases(100, share=0.1), deadline=None)
@given(sequences(), SETTINGS, st.integers(0, 300))
def test_a_capacity_is_never_exceeded_and_what_it_does_not_touch_it_does_not_change(
    events: list[AllocatorEvent], chosen: AllocatorSettings, capacity_mib: int
):
    free = simulate_allocator(events, chosen)
    limited = simulate_allocator(events, chosen, capacity_mib * MIB)
    assert limited.peak_reserved_bytes <= capacity_mib * MIB
    if limited.num_retries == 0:
        assert limited.failure is None
    if limited.failure is not None:
        assert free.peak_reserved_bytes > capacity_mib * MIB - 20 * MIB
        assert len(limited.reserved_bytes) == limited.failed_at + 1
    # Enough, with the largest segment over, that the driver never says no.
    enough = simulate_allocator(events, chosen, free.peak_reserved_bytes + 128 * MIB)
    assert (enough.failure, enough.num_retries) == (None, 0)
    assert np.array_equal(enough.reserved_bytes, free.reserved_bytes)


@settings(max_examples=cases(50, share=0.1), deadline=None)
@given(sequences(), SETTINGS)
def test_the_same_requests_give_the_same_trace(events: list[AllocatorEvent], chosen: AllocatorSettings):
    first, second = simulate_allocator(events, chosen), simulate_allocator(iter(events), chosen)
    for name in ("allocated_bytes", "reserved_bytes", "inactive_split_bytes", "num_segments"):
        assert np.array_equal(getattr(first, name), getattr(second, name))
