"""What a stream of requests waits: for the step under way, for others' prompts, and for a place.

Queues of many servers wait about (c_a² + c_s²) / 2 · ρ^(√(2 (c + 1)) - 1) / (c (1 - ρ)) services (Sakasegawa,
Annals of the Institute of Statistical Mathematics 29, 1977; for one server Kingman's formula).
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats


def queue_seconds(service: Floats, busy_share: Floats, servers: Floats | float, variation: float) -> Floats:
    """Mean wait; infinite from a busy share of 1 on.

    Args:
        variation: Sum of the squared coefficients of variation of arrivals and services.

    >>> queue_seconds(np.array([1.0]), np.array([0.5]), 1.0, 2.0).tolist()  # M/M/1
    [1.0]
    """
    servers = np.asarray(servers, dtype=float)
    free = np.maximum(1 - busy_share, 0.0)
    with np.errstate(divide="ignore"):
        found = variation / 2 * busy_share ** (np.sqrt(2 * (servers + 1)) - 1) / (servers * free) * service
    return np.asarray(np.where(busy_share < 1, found, np.inf))


def growing_queue_seconds(num_requests: Floats, most: Floats, asked: Floats) -> Floats:
    """Mean wait of so many requests that come faster than they are answered, and 0 of those that do not.

    Args:
        num_requests: Infinite where they never end.
        most, asked: Requests a second: answered at most, and sent.

    >>> growing_queue_seconds(np.array([100.0]), np.array([1.0]), np.array([2.0])).tolist()
    [25.0]
    """
    behind = np.maximum(1 / most - 1 / asked, 0.0)
    counted = np.where(behind > 0, num_requests, 0.0)
    return np.asarray(counted / 2 * behind)
