"""Strides and spans in columns are those of each plan's groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.plan import ORDERS, Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.plans.table import to_table
from perfcast.errors import PlanError
from perfcast.workload.plan_columns.geometry import axis_strides, replica_columns, span_codes

LINK = Link("test", 1e-6, 1e9)
GROUPS = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline"}
DEGREE = st.sampled_from([1, 2, 3, 4])
PLANS = st.lists(
    st.builds(
        Plan, data_parallel=DEGREE, tensor_parallel=DEGREE, pipeline_parallel=DEGREE, context_parallel=DEGREE,
        order=st.sampled_from(ORDERS),
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip


def tree(*sizes):
    levels = tuple(Level(f"level {at}", size, LINK) for at, size in enumerate(sizes))
    return Cluster("tree", "Tree", "h100-sxm", levels)


@given(PLANS)
def test_strides_are_those_of_the_groups(plans):
    strides = axis_strides(to_table(plans))
    for at, plan in enumerate(plans):
        for axis, name in GROUPS.items():
            group = group_of(plan, name)
            assert strides[axis][at] == (group[1] - group[0] if len(group) > 1 else 0), (plan, axis)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4])), min_size=1, max_size=8))
def test_groups_have_one_code_where_they_lie_alike(runs):
    cluster = tree(4, 4, 4)
    stride, size = (np.array(column) for column in zip(*runs, strict=True))
    codes = span_codes(cluster, [(stride, size)])
    spans = [cluster.span(tuple(range(0, one * many, one))) for one, many in runs]
    for first in range(len(runs)):
        for second in range(len(runs)):
            assert (codes[first] == codes[second]) == (spans[first] == spans[second])


def test_replicas_over_two_axes_lie_as_their_group_does():
    cluster = tree(4, 2, 4)
    plans = [
        Plan(data_parallel=dp, context_parallel=cp, tensor_parallel=tp, order=order)
        for dp, cp, tp in ((4, 2, 4), (2, 4, 4), (8, 2, 2), (16, 2, 1), (1, 8, 4))
        for order in (ORDERS[0], ORDERS[3])
    ]  # fmt: skip
    table = to_table(plans)
    sizes, codes = replica_columns(cluster, table, axis_strides(table))
    spans = [cluster.span(tuple(sorted(group_of(plan, "replica")))) for plan in plans]
    assert sizes.tolist() == [plan.num_dense_replicas for plan in plans]
    for first in range(len(plans)):
        for second in range(len(plans)):
            assert (codes[first] == codes[second]) == (spans[first] == spans[second])


def test_a_group_that_fills_a_level_unevenly_is_refused():
    with pytest.raises(PlanError, match="fills the level 'level 0' unevenly"):
        span_codes(tree(2, 2), [(np.array([1]), np.array([3]))])


def test_a_group_beyond_the_cluster_is_refused():
    with pytest.raises(PlanError, match="does not lie in 4 devices"):
        span_codes(tree(2, 2), [(np.array([1]), np.array([8]))])
