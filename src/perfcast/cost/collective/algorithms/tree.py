"""Trees: reduce towards a root and broadcast from it, in chunks that follow each other.

A member of a binary tree that is neither root nor leaf passes S up and 2 S down. Two trees, each for half of
the message, in which the leaves of one are the inner nodes of the other, balance that: S up and S down for
every member (Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan,
Parallel Computing 2009). Between two members a tree exchanges S once in each direction.
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork, per_level, tree_hops

_TREE_SHARE = 0.92


def tree_all_reduce(geometry: Geometry) -> CollectiveWork:
    """One binary tree on each level: an inner member sends 3 S (2 S among three), S between two."""
    factor = np.select([geometry.spans <= 2, geometry.spans <= 3], [1.0, 2.0], 3.0)
    return CollectiveWork(2 * tree_hops(geometry), _pipelined(geometry, factor))


def tree_pipeline(geometry: Geometry) -> CollectiveWork:
    """Broadcast or reduce on one binary tree: 2 S down from an inner member, S between two."""
    factor = np.where(geometry.spans <= 2, 1.0, 2.0)
    return CollectiveWork(tree_hops(geometry), _pipelined(geometry, factor))


def double_tree_all_reduce(geometry: Geometry) -> CollectiveWork:
    """As NCCL builds it: a chain through each innermost child, two balanced trees above.

    Every member of a chain sends S up and S down. With m children on a level, the trees send S each way
    between two, 2 S from more. NCCL's own model takes 2 S for any number, and 0.92 of the rate
    (src/graph/tuning.cc), so it keeps to rings for long messages where a tree would do better between two
    nodes; a network's tuner may know better.
    """
    hops = 2 * tree_hops(geometry)
    hops[:, 0] = 2 * (geometry.spans[:, 0] - 1)
    factor = np.where(geometry.spans <= 2, 1.0, 2.0)
    factor[:, 0] = np.where(geometry.spans[:, 0] <= 2, 1.0, 2.0)
    actual = _pipelined(geometry, factor)
    judged = _pipelined(geometry, np.full_like(factor, 2 / _TREE_SHARE))
    return CollectiveWork(hops, actual, judged_seconds=np.where(geometry.judges_as_is, actual, judged))


def _pipelined(geometry: Geometry, factor: Floats) -> Floats:
    """Chunks keep all levels busy at once: the slowest level counts. The members below one child share."""
    sent = factor * geometry.message_bytes[:, None] / geometry.below
    seconds: Floats = per_level(geometry, sent).max(axis=1)
    return seconds
