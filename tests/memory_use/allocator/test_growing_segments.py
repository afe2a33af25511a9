"""Growing segments, on sequences short enough to follow by hand."""

from __future__ import annotations

from perfcast.memory_use.allocator import (
    Allocate,
    AllocatorEvent,
    AllocatorTrace,
    EmptyCache,
    Free,
    parse_allocator_settings,
    simulate_allocator,
)
from perfcast.units import MIB


def run(*events: AllocatorEvent, settings: str = "", capacity_mib: int | None = None) -> AllocatorTrace:
    capacity = None if capacity_mib is None else capacity_mib * MIB
    chosen = parse_allocator_settings(f"expandable_segments:True{settings}")
    return simulate_allocator(events, chosen, capacity, device_bytes=1024 * MIB)


def reserved_mib(trace: AllocatorTrace) -> list[float]:
    return [int(value) / MIB for value in trace.reserved_bytes]


def test_large_blocks_tile_granules_of_20_mib_and_small_ones_of_2():
    trace = run(Allocate(0, 5 * MIB), Allocate(1, 20 * MIB), Allocate(2, 15 * MIB), Allocate(3, MIB))
    assert reserved_mib(trace) == [20, 40, 40, 42]
    assert list(trace.num_segments) == [1, 1, 1, 2]


def test_the_granule_of_the_large_pool_can_be_set():
    assert reserved_mib(run(Allocate(0, 5 * MIB), settings=",large_segment_size_mb:12")) == [12]


def test_rests_down_to_512_bytes_are_split_off_in_both_pools():
    trace = run(Allocate(0, 20 * MIB - 512), Allocate(1, MIB), Free(0), Allocate(2, 20 * MIB - 512))
    assert trace.allocated_bytes[0] == 20 * MIB - 512
    assert reserved_mib(trace)[-1] == 22


def test_the_free_end_of_a_segment_grows_into_what_is_asked():
    trace = run(Allocate(0, 30 * MIB), Allocate(1, 25 * MIB))
    assert reserved_mib(trace) == [40, 60], "10 MiB were free; one granule more makes 30"


def test_a_little_larger_request_needs_no_second_segment():
    growing = run(Allocate(0, 39 * MIB), Free(0), Allocate(1, 41 * MIB))
    assert reserved_mib(growing) == [40, 40, 60]
    fixed = simulate_allocator(
        [Allocate(0, 39 * MIB), Free(0), Allocate(1, 41 * MIB)], parse_allocator_settings("")
    )
    assert reserved_mib(fixed) == [40, 40, 82]


def test_the_end_of_a_segment_counts_with_what_it_could_become_and_is_spared():
    trace = run(
        Allocate(0, 8 * MIB), Allocate(1, 6 * MIB), Free(0), Allocate(2, 5 * MIB), Allocate(3, 26 * MIB)
    )
    assert reserved_mib(trace)[-1] == 40, "the end kept its 6 MiB: the hole of 8 took block 2"


def test_every_stream_and_pool_has_a_segment_of_its_own():
    trace = run(
        Allocate(0, 5 * MIB), Allocate(1, 5 * MIB, stream=1), Allocate(2, 1), Allocate(3, 1, stream=1)
    )
    assert reserved_mib(trace) == [20, 40, 42, 44]
    assert trace.num_segments[-1] == 4


def test_emptying_the_cache_unmaps_granules_that_lie_wholly_free():
    trace = run(Allocate(0, 30 * MIB), Allocate(1, 30 * MIB), Free(0), EmptyCache())
    assert reserved_mib(trace) == [40, 60, 60, 40], "10 MiB of the second granule stay free"
    everything = run(Allocate(0, 30 * MIB), Free(0), EmptyCache())
    assert reserved_mib(everything)[-1] == 0
    assert everything.num_segments[-1] == 0


def test_a_full_device_gets_granules_back_and_the_gap_is_filled_first_later():
    events = [Allocate(0, 30 * MIB), Allocate(1, 30 * MIB), Free(0), Allocate(2, 20 * MIB, stream=1)]
    full = run(*events, capacity_mib=60)
    assert (full.failure, full.num_retries) == (None, 1)
    assert reserved_mib(full)[-1] == 60
    filled = run(*events, Free(2), Allocate(3, 30 * MIB), capacity_mib=60)
    assert filled.failure is None
    assert reserved_mib(filled)[-1] == 60
    assert list(filled.num_segments)[-3:] == [2, 2, 1], "the gap of 20 MiB and the 10 free ones behind it"


def test_a_granule_that_does_not_fit_is_a_failure_though_the_bytes_would():
    assert run(Allocate(0, 5 * MIB), capacity_mib=20).failure is None
    assert run(Allocate(0, 5 * MIB), capacity_mib=19).failed_at == 0


def test_pytorchs_own_limit_counts_a_whole_request_where_a_part_would_have_to_be_mapped():
    """40 MiB are mapped, 10 of them free; 30 more need one granule of 20, but 40 + 30 is over the limit."""
    events = [Allocate(0, 30 * MIB), Allocate(1, 30 * MIB)]
    chosen = parse_allocator_settings("expandable_segments:True")
    assert simulate_allocator(events, chosen, 60 * MIB, device_bytes=70 * MIB).failed_at is None
    assert simulate_allocator(events, chosen, 60 * MIB, device_bytes=69 * MIB).failed_at == 1


def test_free_parts_of_growing_segments_are_not_counted_as_inactive():
    trace = run(Allocate(0, 5 * MIB), Allocate(1, 5 * MIB), Free(0))
    assert list(trace.inactive_split_bytes) == [0, 0, 0]
