from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.plan import Plan
from perfcast.errors import PlanError, UnknownNameError

DEGREE = st.integers(1, 16)


def test_one_device_is_the_default():
    assert (Plan().world_size, Plan().global_batch_size, Plan().num_dense_replicas) == (1, 1, 1)


def test_data_tensor_context_and_pipeline_multiply_up_to_the_devices():
    plan = Plan(data_parallel=2, tensor_parallel=8, pipeline_parallel=4, context_parallel=3)
    assert (plan.ranks_per_stage, plan.world_size) == (48, 192)


def test_zero_shards_over_data_and_context_but_not_over_tensor():
    assert Plan(data_parallel=2, context_parallel=3, tensor_parallel=8).num_dense_replicas == 6


def test_context_parallelism_adds_no_sequences():
    plan = Plan(data_parallel=4, context_parallel=8, micro_batch_size=2, num_micro_batches=3)
    assert plan.global_batch_size == 2 * 3 * 4


def test_experts_are_cut_as_the_rest_until_they_are_spread():
    assert Plan(tensor_parallel=4).tensor_parallel_of_experts == 4
    assert Plan(data_parallel=2, tensor_parallel=4, expert_parallel=2).tensor_parallel_of_experts == 1
    spread = Plan(data_parallel=2, tensor_parallel=4, expert_parallel=2, expert_tensor_parallel=4)
    assert (spread.tensor_parallel_of_experts, spread.num_expert_replicas) == (4, 1)


def test_experts_spread_over_all_ranks_of_a_stage_have_no_replica():
    assert Plan(data_parallel=4, tensor_parallel=2, expert_parallel=8).num_expert_replicas == 1


@given(DEGREE, DEGREE, DEGREE, DEGREE)
def test_replicas_of_experts_times_their_groups_are_the_ranks_of_a_stage(
    data: int, tensor: int, context: int, times: int
):
    plan = Plan(
        data_parallel=data * times, tensor_parallel=tensor, context_parallel=context, expert_parallel=times
    )
    groups = plan.num_expert_replicas * plan.expert_parallel * plan.tensor_parallel_of_experts
    assert groups == plan.ranks_per_stage


@pytest.mark.parametrize(
    ("schedule", "chunks"), [("interleaved", 1), ("1f1b", 2), ("gpipe", 2), ("zero_bubble", 3)]
)
def test_the_interleaved_schedule_and_no_other_has_several_chunks_a_rank(schedule: str, chunks: int):
    with pytest.raises(PlanError, match=f"schedule={schedule} with vp={chunks}"):
        Plan(pipeline_parallel=2, schedule=schedule, virtual_stages_per_rank=chunks)
    assert Plan(pipeline_parallel=2, schedule="interleaved", virtual_stages_per_rank=2).world_size == 2


def test_expert_groups_that_do_not_divide_are_refused_with_the_equation():
    with pytest.raises(PlanError, match=r"dp=3 · cp=1 · tp=2 = 6 ranks are no multiple of ep=4 · etp=1 = 4"):
        Plan(data_parallel=3, tensor_parallel=2, expert_parallel=4)


@pytest.mark.parametrize(
    "changes",
    [
        {"data_parallel": 0}, {"tensor_parallel": -1}, {"pipeline_parallel": 0},
        {"expert_tensor_parallel": 0}, {"virtual_stages_per_rank": 0}, {"micro_batch_size": 0},
        {"num_micro_batches": 0},
    ],
)  # fmt: skip
def test_a_degree_below_one_is_refused_with_its_value(changes: dict[str, int]):
    value = next(iter(changes.values()))
    with pytest.raises(PlanError, match=f"={value}: must be at least 1"):
        Plan(**changes)


@pytest.mark.parametrize("stage", [-1, 4])
def test_zero_has_four_stages(stage: int):
    with pytest.raises(PlanError, match=f"zero={stage}"):
        Plan(zero_stage=stage)


@pytest.mark.parametrize(
    ("changes", "close"),
    [
        ({"recompute": "ful"}, "full"),
        ({"schedule": "gpip"}, "gpipe"),
        ({"offload": "optimiser"}, "optimizer"),
    ],
)
def test_an_unknown_word_lists_the_one_that_was_meant(changes: dict[str, str], close: str):
    with pytest.raises(UnknownNameError) as error:
        Plan(**changes)
    assert close in error.value.close_names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_parallel": 6, "num_shards": 4}, "shards=4 does not divide dp · cp = 6"),
        ({"tensor_parallel": 6, "tensor_parallel_inputs": 4}, "tp_inputs=4 does not divide tp=6"),
        ({"pipeline_parallel": 3, "stage_layers": (1, 2)}, "layers of 2 stages for pp=3"),
        ({"pipeline_parallel": 3, "schedule": "dualpipe", "num_micro_batches": 2}, "even number of stages"),
        ({"pipeline_parallel": 2, "schedule": "dualpipe", "num_micro_batches": 3}, "even number of micro"),
        ({"capacity_factor": 0.0}, "capacity=0"),
        ({"expert_imbalance": 0.5}, "imbalance=0.5"),
        ({"bucket_bytes": 0}, "bucket=0"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_its_numbers(changes: dict[str, object], message: str):
    with pytest.raises(PlanError, match=message):
        Plan(**changes)


def test_weights_are_sharded_over_all_replicas_unless_copies_are_asked_for():
    assert Plan(data_parallel=4, context_parallel=2).shard_size == 8
    assert Plan(data_parallel=4, context_parallel=2, num_shards=2).shard_size == 2
