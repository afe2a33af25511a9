"""Plans that no other beats in everything at once."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats, Integers


def pareto_front(costs: Floats) -> Integers:
    """Places of the rows that no row dominates, those of the least first cost first; of equal rows the first.

    A row dominates another if none of its costs is larger and one is smaller.

    Args:
        costs: [n, k], less is better.
    """
    costs = np.asarray(costs, dtype=np.float64)
    order = np.lexsort((np.arange(len(costs)), *costs.T[::-1]))
    left, front = order, []
    while len(left):
        # Rows are in lexicographic order, so that none dominates the first; it drops all that it beats.
        best = left[0]
        front.append(int(best))
        left = left[(costs[left] < costs[best]).any(axis=1)]
    return np.array(front, dtype=np.int64)
