"""Ranks of groups, counted by hand on small grids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.plan import ORDERS, Plan
from perfcast.core.plans.placement import GROUPS, group_of, next_stage
from perfcast.errors import UnknownNameError

CUBE = Plan(tensor_parallel=2, data_parallel=3, pipeline_parallel=4)


def test_tensor_parallel_ranks_are_neighbours_and_stages_lie_far_apart():
    assert list(group_of(CUBE, "tensor")) == [0, 1]
    assert list(group_of(CUBE, "data")) == [0, 2, 4]
    assert list(group_of(CUBE, "pipeline")) == [0, 6, 12, 18]
    assert list(next_stage(CUBE)) == [0, 6]


def test_another_order_moves_the_stages_inside_the_replicas():
    plan = Plan(tensor_parallel=2, data_parallel=3, pipeline_parallel=4, order="tp-cp-pp-dp")
    assert list(group_of(plan, "pipeline")) == [0, 2, 4, 6]
    assert list(group_of(plan, "data")) == [0, 8, 16]


def test_the_embedding_group_is_the_first_and_the_last_stage():
    assert list(group_of(CUBE, "embedding")) == [0, 18]
    assert list(group_of(Plan(data_parallel=4), "embedding")) == [0]


def test_replicas_of_dense_weights_span_context_and_data():
    plan = Plan(tensor_parallel=2, context_parallel=2, data_parallel=2, pipeline_parallel=2)
    assert list(group_of(plan, "replica")) == [0, 2, 4, 6]
    assert list(group_of(plan, "model")) == [0, 1, 8, 9]


def test_hybrid_shards_are_neighbours_and_copies_lie_a_shard_apart():
    plan = Plan(data_parallel=8, num_shards=4)
    assert list(group_of(plan, "shard")) == [0, 1, 2, 3]
    assert list(group_of(plan, "copy")) == [0, 4]


def test_experts_cut_the_ranks_of_a_stage_once_more():
    plan = Plan(tensor_parallel=2, data_parallel=8, expert_parallel=4, expert_tensor_parallel=2)
    assert list(group_of(plan, "expert_tensor")) == [0, 1]
    assert list(group_of(plan, "expert")) == [0, 2, 4, 6]
    assert list(group_of(plan, "expert_replica")) == [0, 8]


def test_an_unknown_group_lists_those_that_exist():
    with pytest.raises(UnknownNameError, match="tensor"):
        group_of(CUBE, "tensors")


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.sampled_from(ORDERS))
def test_groups_have_their_degrees_and_hold_rank_0(
    tensor: int, data: int, stages: int, context: int, order: str
):
    plan = Plan(
        tensor_parallel=tensor,
        data_parallel=data,
        pipeline_parallel=stages,
        context_parallel=context,
        order=order,
    )
    sizes = {
        "tensor": tensor, "data": data, "pipeline": stages, "context": context, "replica": data * context,
        "model": tensor * stages, "stage": tensor * data * context, "world": plan.world_size,
        "expert_replica": plan.num_expert_replicas, "shard": plan.shard_size, "copy": 1,
    }  # fmt: skip
    for name in GROUPS:
        ranks = list(group_of(plan, name))
        assert ranks[0] == 0
        assert len(set(ranks)) == len(ranks)
        assert max(ranks) < plan.world_size
        assert len(ranks) == sizes.get(name, len(ranks))
