"""Settings of PyTorch's caching allocator, as ``PYTORCH_CUDA_ALLOC_CONF`` gives them.

Source: c10/core/AllocatorConfig.h, AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.h of PyTorch 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from perfcast.errors import InputError, UnknownNameError
from perfcast.ranges import ANY_NUMBER, excerpt, read_number
from perfcast.units import MIB, format_bytes

_COUNT = "[0-9]{1,12}"

UNLIMITED_BYTES = 2**63 - 1
NUM_DIVISION_INTERVALS = 16
_LEAST_LARGE_SEGMENT_BYTES = 10 * MIB
#: Options of the pinned host memory, of locks and of CUDA graphs: they do not change what a step reserves.
_WITHOUT_EFFECT = (
    "release_lock_on_cudamalloc", "pinned_use_cuda_host_register", "pinned_num_register_threads",
    "pinned_use_background_threads", "pinned_reserve_segment_size_mb", "pinned_free_catch_all",
    "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb", "graph_capture_record_stream_reuse",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """How the allocator rounds, splits and gives back.

    Attributes:
        most_split_bytes: Blocks of this size or more are never split, and serve only requests of this size
            or more (``max_split_size_mb``).
        most_unsplit_excess_bytes: How much larger than such a request a block may be
            (``max_non_split_rounding_mb``).
        large_segment_bytes: Segment for requests over 1 and under 10 MiB, and granule of growing segments
            (``large_segment_size_mb``).
        roundup_power2_divisions: Steps between two powers of two to which requests are rounded, by power
            from 1 MiB to 32 GiB; 0 rounds to 512 bytes.
        garbage_collection_threshold: Fraction of the allowed memory beyond which idle segments are given
            back before the driver is asked for more; 0 is never.
        expandable_segments: One growing segment per pool and stream instead of many of fixed size.
        memory_fraction: Part of the device that the process may reserve (``per_process_memory_fraction``).

    Raises:
        InputError: A value that PyTorch refuses.
    """

    most_split_bytes: int = UNLIMITED_BYTES
    most_unsplit_excess_bytes: int = 20 * MIB
    large_segment_bytes: int = 20 * MIB
    roundup_power2_divisions: tuple[int, ...] = (0,) * NUM_DIVISION_INTERVALS
    garbage_collection_threshold: float = 0.0
    expandable_segments: bool = False
    memory_fraction: float = 1.0

    def __post_init__(self) -> None:
        least = self.large_segment_bytes
        if least <= _LEAST_LARGE_SEGMENT_BYTES:
            raise _impossible("large_segment_size_mb", format_bytes(least), "more than 10 MiB")
        for key, value in (
            ("max_split_size_mb", self.most_split_bytes),
            ("max_non_split_rounding_mb", self.most_unsplit_excess_bytes),
        ):
            if value < least:
                raise _impossible(
                    key, format_bytes(value), f"at least a large segment, {format_bytes(least)}"
                )
        divisions = self.roundup_power2_divisions
        if len(divisions) != NUM_DIVISION_INTERVALS or any(d < 0 or d & (d - 1) for d in divisions):
            raise _impossible("roundup_power2_divisions", str(divisions), "16 powers of two, or 0 for none")
        if not 0.0 <= self.garbage_collection_threshold < 1.0:
            threshold = str(self.garbage_collection_threshold)
            raise _impossible("garbage_collection_threshold", threshold, "between 0 and 1")
        if not 0.0 < self.memory_fraction <= 1.0:
            raise _impossible("per_process_memory_fraction", str(self.memory_fraction), "over 0, at most 1")

    def divisions_of(self, num_bytes: int) -> int:
        """Steps to which a request of this size is rounded; requests under 1 MiB share the first entry."""
        interval = num_bytes.bit_length() - MIB.bit_length()
        return self.roundup_power2_divisions[min(max(interval, 0), NUM_DIVISION_INTERVALS - 1)]


def parse_allocator_settings(text: str) -> AllocatorSettings:
    """Settings from the form of ``PYTORCH_CUDA_ALLOC_CONF``: ``max_split_size_mb:128,backend:native``.

    Raises:
        InputError: A key that PyTorch does not know, a value that it refuses, or an allocator other than the
            native one.
    """
    changes: dict[str, object] = {}
    for option in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", "".join(text.split())):
        key, colon, value = option.partition(":")
        if not colon or not value:
            raise InputError(f"allocator setting '{option}' has no value; write it as key:value")
        if key in _PARSERS:
            changes |= _PARSERS[key](key, value)
        elif key == "backend" and value != "native":
            raise _impossible(key, value, "native, the only allocator that is simulated")
        elif key != "backend" and key not in _WITHOUT_EFFECT:
            raise UnknownNameError("allocator setting", key, (*_PARSERS, "backend", *_WITHOUT_EFFECT))
    return replace(AllocatorSettings(), **changes)  # type: ignore[arg-type]


def _impossible(key: str, value: str, allowed: str) -> InputError:
    return InputError(f"allocator setting {key} is {value}; it must be {allowed}")


def _mebibytes(field: str) -> Callable[[str, str], Mapping[str, object]]:
    def parse(key: str, value: str) -> Mapping[str, object]:
        if not re.fullmatch(_COUNT, value):
            raise _impossible(key, excerpt(value), "a whole number of MiB")
        return {field: min(int(value) * MIB, UNLIMITED_BYTES)}

    return parse


def _fraction(field: str) -> Callable[[str, str], Mapping[str, object]]:
    def parse(key: str, value: str) -> Mapping[str, object]:
        try:
            return {field: read_number("", value, ANY_NUMBER)}
        except InputError:
            raise _impossible(key, excerpt(value), "a number") from None

    return parse


def _truth(key: str, value: str) -> Mapping[str, object]:
    if value not in ("True", "False"):
        raise _impossible(key, f"'{value}'", "True or False")
    return {"expandable_segments": value == "True"}


def _divisions(key: str, value: str) -> Mapping[str, object]:
    """``4`` for all sizes, or ``[256:1,512:2,>:8]``: by power of two in MiB, '>' for all above the last.

    The first entry holds for everything below it too; sizes between two entries round to 512 bytes.
    """
    if re.fullmatch(_COUNT, value):
        return {"roundup_power2_divisions": (int(value),) * NUM_DIVISION_INTERVALS}
    entries = re.fullmatch(r"\[(?:(?:[0-9]{1,9}|>):[0-9]{1,9},?)+\]", value)
    if entries is None:
        raise _impossible(key, excerpt(value), "a number or a list such as [256:1,512:2,>:8]")
    result, last = [0] * NUM_DIVISION_INTERVALS, -1
    for size, count in re.findall(r"(\d+|>):(\d+)", value):
        if size == ">":
            result[last + 1 :] = [int(count)] * (NUM_DIVISION_INTERVALS - last - 1)
            continue
        mebibytes = int(size)
        if mebibytes == 0 or mebibytes & (mebibytes - 1):
            raise _impossible(key, f"'{value}'", f"given at powers of two in MiB, not at {size}")
        index = min(mebibytes.bit_length() - 1, NUM_DIVISION_INTERVALS - 1)
        if last < 0:
            result[:index] = [int(count)] * index
        result[index], last = int(count), index
    return {"roundup_power2_divisions": tuple(result)}


_PARSERS: Mapping[str, Callable[[str, str], Mapping[str, object]]] = {
    "max_split_size_mb": _mebibytes("most_split_bytes"),
    "max_non_split_rounding_mb": _mebibytes("most_unsplit_excess_bytes"),
    "large_segment_size_mb": _mebibytes("large_segment_bytes"),
    "roundup_power2_divisions": _divisions,
    "garbage_collection_threshold": _fraction("garbage_collection_threshold"),
    "expandable_segments": _truth,
    "per_process_memory_fraction": _fraction("memory_fraction"),
}
