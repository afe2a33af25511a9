"""Sizes: how PyTorch's caching allocator rounds requests, and what it asks of the driver.

Source: c10/core/AllocatorConfig.h and c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.13.
"""

from __future__ import annotations

from perfcast.memory_use.allocator.settings import AllocatorSettings
from perfcast.units import KIB, MIB

GRAIN_BYTES = KIB // 2
SMALL_REQUEST_BYTES = MIB
SMALL_SEGMENT_BYTES = 2 * MIB
SEGMENT_GRAIN_BYTES = 2 * MIB
OWN_SEGMENT_BYTES = 10 * MIB


def round_request(num_bytes: int, settings: AllocatorSettings) -> int:
    """Bytes of the block that serves a request: a multiple of 512.

    With d divisions, requests above 512·d are rounded up to the next of d equal steps between two powers of
    two instead: 1200 bytes with d = 4 become 1280, the second of 1024, 1280, 1536, 1792.
    """
    divisions = settings.divisions_of(num_bytes)
    if divisions == 0 or num_bytes <= GRAIN_BYTES * divisions:
        return max(GRAIN_BYTES, -(-num_bytes // GRAIN_BYTES) * GRAIN_BYTES)
    if divisions == 1:
        return num_bytes
    power = 1 << (num_bytes.bit_length() - 1)
    step = power // divisions
    return -(-num_bytes // step) * step


def is_small(rounded_bytes: int) -> bool:
    """Whether the block comes from the pool of 2 MiB segments."""
    return rounded_bytes <= SMALL_REQUEST_BYTES


def segment_bytes(rounded_bytes: int, settings: AllocatorSettings) -> int:
    """Bytes asked of the driver when no cached block fits."""
    if is_small(rounded_bytes):
        return SMALL_SEGMENT_BYTES
    if rounded_bytes < OWN_SEGMENT_BYTES:
        return settings.large_segment_bytes
    return -(-rounded_bytes // SEGMENT_GRAIN_BYTES) * SEGMENT_GRAIN_BYTES


def is_split(block_bytes: int, rounded_bytes: int, in_small_pool: bool, settings: AllocatorSettings) -> bool:
    """Whether what a block has over a request becomes a block of its own."""
    rest = block_bytes - rounded_bytes
    if in_small_pool or settings.expandable_segments:
        return rest >= GRAIN_BYTES
    return rounded_bytes < settings.most_split_bytes and rest > SMALL_REQUEST_BYTES
