"""A device that waits for its host: kernels too short for the host to keep ahead.

The host issues kernel i at c_i after the step begins; the device starts it when it is issued and the one
before has ended. With durations d and their running sums D_i = d_1 + … + d_i the last one ends at

    max over j of (c_j + D_n − D_{j−1})

(a tandem queue with a deterministic first server; Lindley's recursion, unrolled). With a time h_i of the host
for each kernel, c_j = h_1 + … + h_j: the first is issued when the host is done with it. At one pace for all,
c_j = (j − 1) · h: what the host did before the first kernel is not part of the step.
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats


def exposed_host_seconds(kernel_seconds: Floats, host_seconds: Floats | float) -> float:
    """Time that the device waits for the host in a step of these kernels, in order, shape [n].

    Args:
        host_seconds: Of the host from the issue of the kernel before to that of each, shape [n]; or one pace.
    """
    count = len(kernel_seconds)
    if not count:
        return 0.0
    issued = host_seconds * np.arange(count) if np.ndim(host_seconds) == 0 else np.cumsum(host_seconds)
    total = float(kernel_seconds.sum())
    before = np.concatenate([[0.0], np.cumsum(kernel_seconds)[:-1]])
    return float(max(0.0, np.max(issued + total - before) - total))
