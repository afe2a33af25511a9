"""A device that waits for its host: kernels too short for the host to keep ahead.

The host issues kernel i no earlier than i · h after the step begins; the device starts it when it is issued
and the one before has ended. With durations d and their running sums D_i = d_1 + … + d_i the last one ends at

    max over j of (j · h + D_n − D_{j−1})

(a tandem queue with a deterministic first server; Lindley's recursion, unrolled). Free operations are issued
too, but by the same host call as the kernel that follows.
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats


def exposed_host_seconds(kernel_seconds: Floats, host_seconds: float) -> float:
    """Time that the device waits for the host in a step of these kernels, in order, shape [n]."""
    if not len(kernel_seconds) or not host_seconds:
        return 0.0
    total = float(kernel_seconds.sum())
    before = np.concatenate([[0.0], np.cumsum(kernel_seconds)[:-1]])
    issued = host_seconds * np.arange(len(kernel_seconds))
    return float(max(0.0, np.max(issued + total - before) - total))
