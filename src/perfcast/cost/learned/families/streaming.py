"""Seconds of memory traffic in a step: the memory's rate, less what the last-level cache keeps.

    seconds = bytes / bandwidth · max(1, (1 − kept · L2 / (L2 + bytes)) / efficiency)

A tensor far larger than the cache leaves nothing behind for the kernel after it; of one of the cache's size,
half is still there; but none is said to be faster than the memory alone. Both constants were read off steps
of vision models on RTX 3090 (6 MiB) and RTX 4090 (72 MiB), whose element-wise kernels agree on them
(``perfcast train vision``).
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from perfcast.core.arrays import Floats

EFFICIENCY = 0.9
KEPT = 0.9

Values = TypeVar("Values", float, Floats)


def stream_seconds(traffic_bytes: Values, bytes_per_second: Values, l2_bytes: Values) -> Values:
    """The law of the module's docstring."""
    kept = KEPT * l2_bytes / (l2_bytes + traffic_bytes)
    slower: Values = np.maximum(1.0, (1 - kept) / EFFICIENCY)
    return traffic_bytes / bytes_per_second * slower
