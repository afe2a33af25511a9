"""Seconds of memory traffic in a step: the memory's rate, less what the last-level cache keeps.

    seconds = bytes · (1 − kept · L2 / (L2 + bytes)) / (efficiency · bandwidth)

A tensor far larger than the cache leaves nothing behind for the kernel after it; of one of the cache's size,
half is still there. Both constants were read off steps of vision models on RTX 3090 (6 MiB) and RTX 4090
(72 MiB), whose element-wise kernels agree on them (``perfcast train vision``).
"""

from __future__ import annotations

from typing import TypeVar

from perfcast.core.arrays import Floats

EFFICIENCY = 0.9
KEPT = 0.9

Values = TypeVar("Values", float, Floats)


def stream_seconds(traffic_bytes: Values, bytes_per_second: Values, l2_bytes: Values) -> Values:
    """The law of the module's docstring."""
    kept = KEPT * l2_bytes / (l2_bytes + traffic_bytes)
    return traffic_bytes * (1 - kept) / (EFFICIENCY * bytes_per_second)
