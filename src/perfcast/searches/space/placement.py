"""Whether the groups of plans lie evenly in a cluster, as ``Cluster.span`` asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from perfcast.core.arrays import Flags, Integers
from perfcast.core.different import different_rows
from perfcast.core.machine.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.plans.table import PlanTable

#: Groups whose ranks exchange something in a training step; pairs and all ranks together are always even.
_GROUPS = ("tensor", "context", "replica", "expert", "expert_tensor", "expert_replica", "shard", "copy")
#: The group over which a norm is summed where gradients are whole.
_UNSHARDED = (*_GROUPS, "model")


def lie_evenly(cluster: Cluster, plans: PlanTable) -> Flags:
    """Which plans' groups fill every level of the tree evenly, shape [n].

    Where all degrees and all inner levels are powers of two, every group is a set of ranks whose numbers
    differ in some bits only, which fills every level evenly; others are looked at one by one.
    """
    columns = [
        plans.order,
        plans.data_parallel,
        plans.tensor_parallel,
        plans.context_parallel,
        plans.pipeline_parallel,
        plans.expert_parallel,
        plans.expert_tensor_parallel,
        plans.num_shards,
        plans.zero_stage == 0,
    ]
    first, place = different_rows(columns)
    inner = [level.size for level in cluster.levels[:-1]]
    bits = reduce(np.bitwise_or, [(c[first] & (c[first] - 1)) != 0 for c in columns[1:-1]])
    sure = ~bits & all(size & (size - 1) == 0 for size in inner)
    even = [
        bool(is_sure) or _lies(cluster, plans.plan(at))
        for at, is_sure in zip(first.tolist(), sure.tolist(), strict=True)
    ]
    return np.array(even, dtype=np.bool_)[place]


def _lies(cluster: Cluster, plan: Plan) -> bool:
    sizes = [level.size for level in cluster.levels]
    names = _GROUPS if plan.zero_stage else _UNSHARDED
    return all(_is_even(np.array(group_of(plan, name)), sizes) for name in names)


def _is_even(members: Integers, sizes: Sequence[int]) -> bool:
    for size in sizes:
        parents, counts = np.unique(members // size, return_counts=True)
        if (counts != counts[0]).any():
            return False
        members = parents
    return True
