"""How the axes of many plans lie in the ranks: their strides, by ``core.plans.placement``'s rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.different import different_rows
from perfcast.core.machine.cluster import Cluster
from perfcast.core.plan import ORDERS
from perfcast.core.plans.table import PlanTable

AXES = {
    "tp": "tensor_parallel",
    "cp": "context_parallel",
    "dp": "data_parallel",
    "pp": "pipeline_parallel",
}


def axis_strides(plans: PlanTable) -> Mapping[str, Integers]:
    """Ranks between two neighbours on an axis, by 'tp', 'cp', 'dp' and 'pp'; 0 where it has one member."""
    strides = {axis: np.zeros(len(plans), dtype=np.int64) for axis in AXES}
    for code in np.unique(plans.order).tolist():
        rows = plans.order == code
        stride = np.ones(len(plans), dtype=np.int64)
        for axis in ORDERS[code].split("-"):
            size = getattr(plans, AXES[axis])
            strides[axis] = np.where(rows & (size > 1), stride, strides[axis])
            stride = stride * size
    return strides


def span_codes(cluster: Cluster, runs: Sequence[tuple[Integers, Integers]]) -> Integers:
    """A number for each different way in which groups lie in a cluster, shape [n]; equal ones cost the same.

    Args:
        runs: Strides and sizes of a group's runs of ranks, [n] each; the ranks are all sums of one of each.

    Raises:
        PlanError: A group that fills a level unevenly, or lies beyond the cluster.
    """
    first, place = different_rows([column for run in runs for column in run])
    codes: dict[tuple[int, ...], int] = {}
    found = np.zeros(len(first), dtype=np.int64)
    for number, at in enumerate(first.tolist()):
        members = np.zeros(1, dtype=np.int64)
        for stride, size in runs:
            members = np.add.outer(np.arange(size[at]) * stride[at], members).reshape(-1)
        span = _span(cluster, np.sort(members))
        found[number] = codes.setdefault(span, len(codes))
    return found[place]


def _span(cluster: Cluster, members: Integers) -> tuple[int, ...]:
    """``Cluster.span`` of rising ranks."""
    span, left = [], members
    for level in cluster.levels:
        parents = left // level.size
        starts = np.flatnonzero(np.diff(parents, prepend=-1))
        counts = np.diff(starts, append=len(left))
        if (counts != counts[0]).any():
            return cluster.span(tuple(members.tolist()))
        span.append(int(counts[0]))
        left = parents[starts]
    if len(left) > 1:
        return cluster.span(tuple(members.tolist()))
    return tuple(span)


def replica_columns(
    cluster: Cluster, plans: PlanTable, strides: Mapping[str, Integers]
) -> tuple[Integers, ...]:
    """What tells groups of replicas (data and context axes) apart: their size and how they lie."""
    dp, cp = plans.data_parallel, plans.context_parallel
    return dp * cp, span_codes(cluster, [(strides["dp"], dp), (strides["cp"], cp)])


def shard_columns(plans: PlanTable) -> tuple[Integers, ...]:
    """What tells apart groups of some replicas that share a sharded copy: every order and degree."""
    apart = (
        plans.num_shards,
        plans.order,
        plans.data_parallel,
        plans.context_parallel,
        plans.tensor_parallel,
        plans.pipeline_parallel,
    )
    return tuple(np.where(plans.num_shards > 0, column, 0) for column in apart)


def expert_columns(
    plans: PlanTable, strides: Mapping[str, Integers], *, has_experts: bool
) -> tuple[Integers, ...]:
    """What tells groups of experts apart: a stage's size, and how it lies unless it is a row of ranks."""
    zero = np.zeros(len(plans), dtype=np.int64)
    if not has_experts:
        return (zero,)
    in_a_row = (plans.pipeline_parallel == 1) | (strides["pp"] == plans.ranks_per_stage)
    apart = (plans.order, plans.data_parallel, plans.context_parallel, plans.pipeline_parallel)
    return (plans.ranks_per_stage, *(np.where(in_a_row, -1, column) for column in apart))
