"""Every rule of the allocator on a sequence short enough to follow by hand."""

from __future__ import annotations

import pytest

from perfcast.errors import InputError
from perfcast.memory_use.allocator import (
    Allocate,
    AllocatorEvent,
    AllocatorSettings,
    AllocatorTrace,
    EmptyCache,
    Free,
    RecordStream,
    Synchronize,
    parse_allocator_settings,
    simulate_allocator,
)
from perfcast.units import KIB, MIB


def run(*events: AllocatorEvent, settings: str = "", capacity_mib: int | None = None) -> AllocatorTrace:
    capacity = None if capacity_mib is None else capacity_mib * MIB
    return simulate_allocator(events, parse_allocator_settings(settings), capacity)


def mib(values: object) -> list[float]:
    return [value / MIB for value in values]  # type: ignore[attr-defined]


def test_a_snapshot_published_by_a_user_is_reproduced():
    """discuss.pytorch.org/t/178671: two operands, a bias, a product and cuBLAS's workspace."""
    trace = run(
        Allocate(0, 40_000), Allocate(1, 40), Allocate(2, 4_000), Allocate(3, 40), Allocate(4, 8_519_680)
    )
    assert trace.allocated_bytes[3] == 45_568
    assert trace.allocated_bytes[4] - trace.allocated_bytes[3] == 8_519_680
    assert list(trace.reserved_bytes) == [2_097_152] * 4 + [2_097_152 + 20_971_520]
    assert trace.inactive_split_bytes[4] == 2_051_584 + 12_451_840


def test_small_requests_share_segments_of_2_mib():
    trace = run(Allocate(0, MIB), Allocate(1, 512 * KIB), Allocate(2, 512 * KIB), Allocate(3, 1))
    assert mib(trace.reserved_bytes) == [2, 2, 2, 4]
    assert list(trace.num_segments) == [1, 1, 1, 2]


def test_middling_requests_share_segments_of_20_mib_and_large_ones_get_their_own():
    trace = run(Allocate(0, 9 * MIB), Allocate(1, 9 * MIB), Allocate(2, 11 * MIB))
    assert mib(trace.reserved_bytes) == [20, 20, 32]


def test_a_rest_of_1_mib_or_less_stays_with_a_large_block_and_a_rest_over_it_is_split_off():
    kept = run(Allocate(0, 11 * MIB))
    assert mib(kept.allocated_bytes) == [12]
    split = run(Allocate(0, 11 * MIB - 512))
    assert list(split.allocated_bytes) == [11 * MIB - 512]
    assert list(split.inactive_split_bytes) == [MIB + 512]


def test_a_small_block_is_split_down_to_512_bytes():
    trace = run(Allocate(0, MIB), Allocate(1, MIB - 512), Allocate(2, 1))
    assert mib(trace.reserved_bytes) == [2, 2, 2]
    assert trace.inactive_split_bytes[1] == 512
    assert trace.inactive_split_bytes[2] == 0


def test_the_smallest_free_block_that_fits_is_taken():
    events = [Allocate(0, 40 * MIB), Allocate(1, 20 * MIB), Allocate(2, 30 * MIB), Free(0), Free(1), Free(2)]
    trace = run(*events, Allocate(3, 28 * MIB))
    assert trace.inactive_split_bytes[-1] == 2 * MIB, "out of the 30 MiB"
    assert mib(trace.reserved_bytes)[-1] == 90


def test_of_equal_free_blocks_the_one_at_the_lowest_address_is_taken():
    """The middle 5 MiB of a segment go first, so that 10 MiB never fit again."""
    events = [Allocate(0, 5 * MIB), Allocate(1, 5 * MIB), Allocate(2, 5 * MIB), Allocate(3, 5 * MIB)]
    lowest_first = run(*events, Free(2), Free(0), Allocate(4, 5 * MIB), Free(1), Allocate(5, 10 * MIB))
    assert mib(lowest_first.reserved_bytes)[-1] == 20, "blocks 1 and 2 lie side by side"


def test_free_neighbours_join():
    events = [Allocate(0, 5 * MIB), Allocate(1, 5 * MIB), Allocate(2, 5 * MIB), Allocate(3, 5 * MIB)]
    joined = run(*events, Free(0), Free(2), Free(1), Allocate(4, 15 * MIB))
    assert mib(joined.reserved_bytes)[-1] == 20
    assert mib(joined.inactive_split_bytes)[-4:] == [5, 10, 15, 0]
    apart = run(*events, Free(0), Free(2), Allocate(4, 9 * MIB))
    assert mib(apart.reserved_bytes)[-1] == 40


def test_what_is_free_serves_its_own_stream_only():
    trace = run(Allocate(0, 12 * MIB), Free(0), Allocate(1, 12 * MIB, stream=7), Allocate(2, 12 * MIB))
    assert mib(trace.reserved_bytes) == [12, 12, 24, 24]


def test_small_and_large_requests_never_share_a_segment():
    trace = run(Allocate(0, 12 * MIB), Free(0), Allocate(1, MIB))
    assert mib(trace.reserved_bytes) == [12, 12, 14]


def test_a_block_used_on_another_stream_returns_only_when_that_stream_is_done():
    used = (Allocate(0, 12 * MIB), RecordStream(0, 3), Free(0))
    assert mib(run(*used, Allocate(1, 12 * MIB)).reserved_bytes)[-1] == 24
    assert mib(run(*used, Synchronize(3), Allocate(1, 12 * MIB)).reserved_bytes)[-1] == 12
    assert mib(run(*used, Synchronize(4), Allocate(1, 12 * MIB)).reserved_bytes)[-1] == 24
    assert mib(run(*used, Synchronize(), Allocate(1, 12 * MIB)).reserved_bytes)[-1] == 12
    assert mib(run(*used).allocated_bytes) == [12, 12, 0]


def test_a_block_used_on_two_streams_waits_for_both():
    used = (Allocate(0, 12 * MIB), RecordStream(0, 3), RecordStream(0, 4), Free(0), Synchronize(3))
    assert mib(run(*used, Allocate(1, 12 * MIB)).reserved_bytes)[-1] == 24
    assert mib(run(*used, Synchronize(4), Allocate(1, 12 * MIB)).reserved_bytes)[-1] == 12


def test_recording_a_blocks_own_stream_changes_nothing():
    trace = run(Allocate(0, 12 * MIB), RecordStream(0, 0), Free(0), Allocate(1, 12 * MIB))
    assert mib(trace.reserved_bytes)[-1] == 12


def test_work_that_starts_after_a_synchronization_is_not_covered_by_it():
    trace = run(Allocate(0, 12 * MIB), RecordStream(0, 3), Synchronize(3), Free(0), Allocate(1, 12 * MIB))
    assert mib(trace.reserved_bytes)[-1] == 24


def test_emptying_the_cache_gives_back_whole_segments_only():
    events = [Allocate(0, 5 * MIB), Allocate(1, 30 * MIB), Allocate(2, MIB), Free(1), Free(2)]
    assert mib(run(*events, EmptyCache()).reserved_bytes) == [20, 50, 52, 52, 52, 20]


def test_a_full_device_gets_idle_segments_back_before_it_is_out_of_memory():
    events = [Allocate(0, 30 * MIB), Allocate(1, 30 * MIB), Free(0), Allocate(2, 40 * MIB)]
    trace = run(*events, capacity_mib=75)
    assert trace.failure is None
    assert trace.num_retries == 1
    assert mib(trace.reserved_bytes) == [30, 60, 60, 70]
    assert mib([trace.peak_reserved_bytes, trace.peak_allocated_bytes]) == [70, 70]


def test_a_full_device_waits_for_other_streams_before_it_is_out_of_memory():
    events = [Allocate(0, 30 * MIB), RecordStream(0, 1), Free(0), Allocate(1, 30 * MIB)]
    trace = run(*events, capacity_mib=30)
    assert (trace.failure, trace.num_retries) == (None, 1)
    assert mib(trace.reserved_bytes)[-1] == 30


def test_segments_partly_in_use_cannot_be_given_back_and_the_failure_says_so():
    events = [Allocate(0, 5 * MIB), Allocate(1, 15 * MIB), Free(1), Allocate(2, 21 * MIB), Allocate(3, 1)]
    trace = run(*events, capacity_mib=40)
    assert trace.failed_at == 3
    assert len(trace.reserved_bytes) == 4
    assert trace.failure is not None
    assert trace.failure.requested_bytes == 21 * MIB
    message = str(trace.failure)
    assert "21.0 MiB asked for, of 40.0 MiB 5.00 MiB are in use and 15.0 MiB lie in segments" in message


def test_the_fraction_of_the_device_limits_what_may_be_reserved():
    half = "per_process_memory_fraction:0.5"
    assert run(Allocate(0, 50 * MIB), settings=half, capacity_mib=100).failure is None
    assert run(Allocate(0, 51 * MIB), settings=half, capacity_mib=100).failed_at == 0


def test_blocks_of_the_split_limit_or_more_are_not_split_and_not_used_for_less():
    settings = "max_split_size_mb:40"
    unsplit = run(Allocate(0, 60 * MIB), Free(0), Allocate(1, 45 * MIB), settings=settings)
    assert mib(unsplit.reserved_bytes)[-1] == 60
    assert mib(unsplit.allocated_bytes)[-1] == 60
    spared = run(Allocate(0, 60 * MIB), Free(0), Allocate(1, 30 * MIB), settings=settings)
    assert mib(spared.reserved_bytes)[-1] == 90
    usual = run(Allocate(0, 60 * MIB), Free(0), Allocate(1, 30 * MIB))
    assert mib(usual.reserved_bytes)[-1] == 60


def test_an_oversize_block_serves_requests_up_to_20_mib_smaller():
    settings = "max_split_size_mb:40"
    near = run(Allocate(0, 62 * MIB), Free(0), Allocate(1, 42 * MIB + 512), settings=settings)
    assert mib(near.reserved_bytes)[-1] == 62
    far = run(Allocate(0, 62 * MIB), Free(0), Allocate(1, 42 * MIB), settings=settings)
    assert mib(far.reserved_bytes)[-1] == 104
    allowed = run(
        Allocate(0, 62 * MIB), Free(0), Allocate(1, 42 * MIB),
        settings=settings + ",max_non_split_rounding_mb:30",
    )  # fmt: skip
    assert mib(allowed.reserved_bytes)[-1] == 62


def test_with_a_split_limit_only_as_much_is_given_back_as_is_needed():
    idle = [Allocate(0, 50 * MIB), Allocate(1, 60 * MIB), Allocate(2, 90 * MIB), Free(0), Free(1), Free(2)]
    one = run(*idle, Allocate(3, 30 * MIB), settings="max_split_size_mb:40", capacity_mib=205)
    assert mib(one.reserved_bytes)[-1] == 60 + 90 + 30, "the smallest of the limit's size or more"
    assert one.num_retries == 0
    several = run(*idle, Allocate(3, 120 * MIB), settings="max_split_size_mb:40", capacity_mib=205)
    assert mib(several.reserved_bytes)[-1] == 50 + 120, "the largest first: 90, then 60"
    everything = run(*idle, Allocate(3, 120 * MIB), capacity_mib=205)
    assert mib(everything.reserved_bytes)[-1] == 120
    assert everything.num_retries == 1


def test_garbage_collection_gives_back_what_lay_idle_longer_than_the_average():
    idle = [Allocate(0, 30 * MIB), Free(0), Allocate(1, 32 * MIB), Free(1), Allocate(2, 34 * MIB), Free(2)]
    settings = "garbage_collection_threshold:0.5"
    # Ages at the last request: 30 MiB 3, 32 MiB 2, 34 MiB 1; the average is 2; 96 - 75 = 21 MiB are too many.
    trace = run(*idle, Allocate(3, 36 * MIB), settings=settings, capacity_mib=150)
    assert mib(trace.reserved_bytes)[-1] == 34 + 36
    assert trace.num_retries == 0
    assert mib(run(*idle, Allocate(3, 36 * MIB), capacity_mib=150).reserved_bytes)[-1] == 132


def test_below_its_threshold_garbage_collection_leaves_the_cache_alone():
    idle = [Allocate(0, 30 * MIB), Free(0)]
    settings = "garbage_collection_threshold:0.5"
    trace = run(*idle, Allocate(1, 40 * MIB), settings=settings, capacity_mib=150)
    assert mib(trace.reserved_bytes)[-1] == 70


@pytest.mark.parametrize("settings", ["garbage_collection_threshold:0.5", "per_process_memory_fraction:0.5"])
def test_a_part_of_the_memory_needs_to_know_the_memory(settings: str):
    with pytest.raises(InputError, match="give a capacity"):
        run(settings=settings)


@pytest.mark.parametrize(
    ("events", "part"),
    [
        ([Allocate(0, 0)], "a request of 0 bytes"),
        ([Allocate(0, 1), Allocate(0, 1)], "event 1: block 0 is in use"),
        ([Free(5)], "event 0: block 5 is not in use"),
        ([Allocate(0, 1), Free(0), Free(0)], "event 2: block 0 is not in use"),
        ([RecordStream(1, 2)], "block 1 is not in use"),
    ],
)
def test_events_that_no_program_can_issue_are_refused(events: list[AllocatorEvent], part: str):
    with pytest.raises(InputError, match=part):
        simulate_allocator(events, AllocatorSettings())


def test_no_events_hold_nothing():
    trace = run()
    assert trace.peak_reserved_bytes == trace.peak_allocated_bytes == trace.fragmentation_at_peak == 0
    assert trace.fragmentation.shape == (0,)


def test_fragmentation_is_the_share_of_what_is_reserved_that_no_block_uses():
    trace = run(Allocate(0, 5 * MIB), Allocate(1, 10 * MIB), Free(1), Free(0), EmptyCache())
    assert list(trace.fragmentation) == [0.75, 0.25, 0.75, 1.0, 0.0]
    assert trace.fragmentation_at_peak == 0.25


def test_more_memory_can_make_a_program_fail_as_it_changes_when_the_cache_is_emptied():
    """With 60 MiB the segment that block 0 left is given back for block 2, and block 3 gets one of its own;
    with 62 MiB it stays, block 3 is cut out of it, and it can never be given back."""
    events = [
        Allocate(0, 20 * MIB), Allocate(1, 12 * MIB), Free(0), Allocate(2, 30 * MIB), Allocate(3, 14 * MIB),
        Free(1), Allocate(4, 14 * MIB),
    ]  # fmt: skip
    assert run(*events, capacity_mib=60).failure is None
    assert run(*events, capacity_mib=62).failed_at == 6
