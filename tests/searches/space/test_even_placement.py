"""Plans that lie evenly in a cluster are exactly those whose collectives the cluster can price."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.collective import group_ranks
from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.operation import OperationKind
from perfcast.core.plan import ORDERS, Plan
from perfcast.core.plans.table import to_table
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.searches.space.placement import lie_evenly
from perfcast.workload.blocks import build_step_work

LINK = Link("test", 1e-6, 1e9)
MODEL = Transformer(
    num_layers=12, hidden_size=72, num_attention_heads=12, num_kv_heads=12, head_size=6, ffn_hidden_size=144,
    vocab_size=360, experts=Experts(num_experts=12, experts_per_token=2, ffn_hidden_size=24),
)  # fmt: skip
#: Tokens that any degree up to twelve divides.
LENGTH = 27720
TREES = ((8, 2), (2, 4, 2), (3, 4), (4, 3), (6, 2), (2, 3, 2), (5, 2), (18, 2), (1, 6), (12,), (2, 2, 2, 2))


def tree(sizes):
    """A cluster of such levels, from the devices outwards."""
    levels = tuple(Level(f"level {at}", size, LINK) for at, size in enumerate(sizes))
    return Cluster("tree", "Tree", "h100-sxm", levels)


def divisors(number):
    return [n for n in range(1, number + 1) if number % n == 0]


@st.composite
def placed(draw):
    """A plan that takes a whole cluster."""
    cluster = tree(draw(st.sampled_from(TREES)))
    left, degrees = cluster.num_devices, []
    for _ in range(3):
        degrees.append(draw(st.sampled_from([n for n in divisors(left) if n <= 12])))
        left //= degrees[-1]
    tp, pp, cp = degrees
    if 12 % tp or pp > 12:
        tp, left = 1, left * tp
    etp = draw(st.sampled_from(sorted({1, tp})))
    ep = draw(st.sampled_from([n for n in divisors(12) if left * tp * cp % (n * etp) == 0]))
    plan = Plan(
        data_parallel=left, tensor_parallel=tp, pipeline_parallel=pp, context_parallel=cp, expert_parallel=ep,
        expert_tensor_parallel=etp, zero_stage=draw(st.sampled_from([0, 1])),
        order=draw(st.sampled_from(ORDERS)),
    )  # fmt: skip
    return cluster, plan


def is_priced(cluster, plan):
    """Whether every collective of a step spans the levels of the cluster."""
    work = build_step_work(MODEL, plan, Training(framework="megatron"), LENGTH)
    collectives = [one for one in work.operations() if one.kind is OperationKind.COLLECTIVE]
    try:
        for one in collectives:
            cluster.span(tuple(group_ranks(one)))
    except PlanError:
        return False
    return True


@settings(max_examples=150, deadline=None)
@given(placed())
def test_a_plan_lies_evenly_exactly_where_its_collectives_can_be_priced(case):
    cluster, plan = case
    assert lie_evenly(cluster, to_table([plan])).tolist() == [is_priced(cluster, plan)]


def test_three_ranks_in_nodes_of_four_lie_unevenly():
    """tp=3 of twelve devices in nodes of four: the second group has one rank here and two there."""
    cluster = tree((4, 3))
    uneven = Plan(tensor_parallel=3, data_parallel=4)
    even = Plan(tensor_parallel=4, data_parallel=3)
    assert lie_evenly(cluster, to_table([uneven, even, uneven])).tolist() == [False, True, False]


def test_powers_of_two_always_lie_evenly():
    cluster = tree((2, 4, 2))
    plans = [
        Plan(tensor_parallel=tp, pipeline_parallel=16 // tp // dp, data_parallel=dp, order=order)
        for tp in (1, 2, 4) for dp in (1, 2, 4) for order in ORDERS
    ]  # fmt: skip
    assert lie_evenly(cluster, to_table(plans)).all()


@pytest.mark.parametrize("count", [1, 7])
def test_a_row_of_any_number_of_devices_lies_evenly(count):
    plans = to_table([Plan(data_parallel=count), Plan(data_parallel=count, zero_stage=1)])
    assert np.array_equal(lie_evenly(tree((count,)), plans), [True, True])
