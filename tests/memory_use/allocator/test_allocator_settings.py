"""Settings in PyTorch's own form, and the sizes that they lead to."""

from __future__ import annotations

import pytest

from perfcast.errors import InputError
from perfcast.memory_use.allocator import AllocatorSettings, parse_allocator_settings
from perfcast.memory_use.allocator.rules import round_request, segment_bytes
from perfcast.units import KIB, MIB

DEFAULT = AllocatorSettings()


def test_no_text_gives_pytorchs_defaults():
    assert parse_allocator_settings("") == DEFAULT


def test_keys_and_values_are_read_as_pytorch_does():
    text = "max_split_size_mb:128, expandable_segments:True,garbage_collection_threshold:0.8"
    expected = AllocatorSettings(
        most_split_bytes=128 * MIB, expandable_segments=True, garbage_collection_threshold=0.8
    )
    assert parse_allocator_settings(text) == expected


def test_segments_rounding_and_fraction_have_keys_too():
    text = "large_segment_size_mb:12,max_non_split_rounding_mb:64,per_process_memory_fraction:0.5"
    settings = parse_allocator_settings(text)
    assert settings.large_segment_bytes == 12 * MIB
    assert settings.most_unsplit_excess_bytes == 64 * MIB
    assert settings.memory_fraction == 0.5


def test_one_number_of_divisions_holds_for_all_sizes():
    assert parse_allocator_settings("roundup_power2_divisions:8").roundup_power2_divisions == (8,) * 16


def test_a_list_of_divisions_goes_by_size_in_mebibytes():
    text = "roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1],max_split_size_mb:40"
    settings = parse_allocator_settings(text)
    sizes = (32, 64, 128, 256, 512, 1024, 2048, 8192)
    assert [settings.divisions_of(n * MIB) for n in sizes] == [8, 8, 2, 4, 2, 4, 1, 1]
    assert settings.most_split_bytes == 40 * MIB


def test_settings_of_pinned_memory_and_locks_change_nothing():
    text = "backend:native,pinned_num_register_threads:8,release_lock_on_cudamalloc:True"
    assert parse_allocator_settings(text) == DEFAULT


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (
            "max_splitsize_mb:128",
            "unknown allocator setting 'max_splitsize_mb'. Did you mean max_split_size_mb",
        ),
        ("expandable_segments", "has no value"),
        ("expandable_segments:yes", "'yes'; it must be True or False"),
        ("max_split_size_mb:big", "whole number of MiB"),
        ("max_split_size_mb:19", "19.0 MiB; it must be at least a large segment, 20.0 MiB"),
        ("large_segment_size_mb:10", "more than 10 MiB"),
        ("garbage_collection_threshold:1.5", "1.5; it must be between 0 and 1"),
        ("garbage_collection_threshold:often", "must be a number"),
        ("garbage_collection_threshold:nan", "must be a number"),
        ("per_process_memory_fraction:0", "over 0, at most 1"),
        ("roundup_power2_divisions:3", "powers of two"),
        ("roundup_power2_divisions:[100:4]", "not at 100"),
        ("roundup_power2_divisions:[100-4]", "a list such as"),
        ("backend:cudaMallocAsync", "native, the only allocator"),
    ],
)
def test_what_pytorch_refuses_is_one_clear_error(text: str, part: str):
    with pytest.raises(InputError) as caught:
        parse_allocator_settings(text)
    assert part in str(caught.value)


@pytest.mark.parametrize(("request_bytes", "block"), [(1, 512), (512, 512), (513, 1024), (40_000, 40_448)])
def test_requests_are_rounded_up_to_512_bytes(request_bytes: int, block: int):
    assert round_request(request_bytes, DEFAULT) == block


def test_divisions_round_to_equal_steps_between_two_powers_of_two():
    four = parse_allocator_settings("roundup_power2_divisions:4")
    assert round_request(1200 * KIB, four) == 1280 * KIB
    assert round_request(1536 * KIB, four) == 1536 * KIB
    assert round_request(1537 * KIB, four) == 1792 * KIB
    assert round_request(1793 * KIB, four) == 2048 * KIB
    assert round_request(1500, four) == 1536, "up to 512 · 4 bytes the usual 512 hold"


@pytest.mark.parametrize(
    ("block", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
    ],
)
def test_segments_are_2_mib_for_small_20_mib_for_middling_and_even_mebibytes_for_large_blocks(
    block: int, segment: int
):
    assert segment_bytes(block, DEFAULT) == segment
