"""How the axes of many plans lie in the ranks: their strides, by ``core.placement``'s rule."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfcast.core.plan import ORDERS
from perfcast.core.plan_table import Column, PlanTable

AXES = {
    "tp": "tensor_parallel", "cp": "context_parallel", "dp": "data_parallel", "pp": "pipeline_parallel",
}  # fmt: skip


def axis_strides(plans: PlanTable) -> Mapping[str, Column]:
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


def replica_columns(plans: PlanTable, strides: Mapping[str, Column]) -> tuple[Column, ...]:
    """What tells groups of replicas (data and context axes) apart: one run of ranks, or two."""
    dp, cp = plans.data_parallel, plans.context_parallel
    swap = (cp == 1) | ((dp > 1) & (strides["dp"] < strides["cp"]))
    inner = np.where(swap, strides["dp"], strides["cp"]), np.where(swap, dp, cp)
    outer = np.where(swap, strides["cp"], strides["dp"]), np.where(swap, cp, dp)
    joins = (outer[1] == 1) | (outer[0] == inner[0] * inner[1])
    return (
        inner[0],
        np.where(joins, inner[1] * outer[1], inner[1]),
        np.where(joins, 0, outer[0]),
        np.where(joins, 1, outer[1]),
    )


def expert_columns(plans: PlanTable, strides: Mapping[str, Column], *, has_experts: bool) -> tuple[Column, ...]:
    """What tells groups of experts apart: the size of a stage, and how it lies unless it is a row of ranks."""
    zero = np.zeros(len(plans), dtype=np.int64)
    if not has_experts:
        return (zero,)
    in_a_row = (plans.pipeline_parallel == 1) | (strides["pp"] == plans.ranks_per_stage)
    apart = (plans.order, plans.data_parallel, plans.context_parallel, plans.pipeline_parallel)
    return (plans.ranks_per_stage, *(np.where(in_a_row, -1, column) for column in apart))
