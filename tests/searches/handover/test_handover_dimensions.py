"""Every dimension of a plan is handed over, or named as one that the target cannot run."""

from dataclasses import fields, replace

import pytest
from handover_jobs import TRAININGS, cluster, write

from perfcast.core.model.transformer import Experts
from perfcast.core.plan import Plan
from perfcast.searches.handover import TARGETS, find_targets
from small_transformers import llama

LENGTH = 1024
DENSE = llama(
    activation="silu", num_layers=8, num_attention_heads=8, num_kv_heads=8, head_size=8, hidden_size=64
)
SPARSE = replace(
    DENSE,
    experts=Experts(num_experts=8, experts_per_token=2, ffn_hidden_size=32, shared_ffn_hidden_size=32),
)
#: A plan in which every dimension below matters, for each target.
BASES = {
    "megatron": Plan(
        data_parallel=4, tensor_parallel=2, pipeline_parallel=2, context_parallel=2, num_micro_batches=4,
        zero_stage=1, sequence_parallel=True,
    ),
    "torchtitan": Plan(
        data_parallel=4, tensor_parallel=2, pipeline_parallel=2, context_parallel=2, num_micro_batches=4,
        zero_stage=3, sequence_parallel=True, context_communication="all_gather",
    ),
    "deepspeed": Plan(data_parallel=8, num_micro_batches=4, zero_stage=3),
    "fsdp2": Plan(data_parallel=8, num_micro_batches=4, zero_stage=3),
}  # fmt: skip
#: One other value of each dimension, and what must change with it so that the plan can be.
OTHERS = {
    "data_parallel": {"data_parallel": 2}, "tensor_parallel": {"tensor_parallel": 4},
    "pipeline_parallel": {"pipeline_parallel": 4}, "context_parallel": {"context_parallel": 4},
    "expert_parallel": {"expert_parallel": 2},
    "expert_tensor_parallel": {"expert_parallel": 4, "expert_tensor_parallel": 2},
    "virtual_stages_per_rank": {
        "pipeline_parallel": 2, "virtual_stages_per_rank": 2, "schedule": "interleaved"
    },
    "micro_batch_size": {"micro_batch_size": 2}, "num_micro_batches": {"num_micro_batches": 8},
    "zero_stage": {"zero_stage": 2}, "sequence_parallel": {"tensor_parallel": 2, "sequence_parallel": False},
    "recompute": {"recompute": "full"},
    "recompute_layers": {"recompute": "full", "recompute_layers": 1},
    "recompute_modules": {"recompute": "selective", "recompute_modules": ("moe_act",)},
    "schedule": {"pipeline_parallel": 2, "schedule": "zero_bubble"},
    "reshard_after_forward": {"zero_stage": 3, "pipeline_parallel": 1, "reshard_after_forward": False},
    "num_prefetched": {"zero_stage": 3, "pipeline_parallel": 1, "num_prefetched": 2},
    "offload": {"offload": "optimizer"},
    "order": {"pipeline_parallel": 2, "order": "tp-cp-pp-dp"},
    "stage_layers": {"pipeline_parallel": 2, "stage_layers": (5, 3)},
    "context_communication": {"context_parallel": 2, "context_communication": "ulysses"},
    "num_shards": {"num_shards": 2},
    "tensor_parallel_inputs": {"tensor_parallel": 4, "tensor_parallel_inputs": 2},
    "overlaps_tensor": {"tensor_parallel": 2, "overlaps_tensor": True},
    "overlaps_gradients": {"overlaps_gradients": False, "overlaps_weights": False},
    "overlaps_weights": {"overlaps_weights": False}, "overlaps_experts": {"overlaps_experts": True},
    "overlaps_shared_experts": {"overlaps_shared_experts": True},
    "bucket_bytes": {"bucket_bytes": 2**26}, "capacity_factor": {"capacity_factor": 1.5},
    "expert_imbalance": {"expert_imbalance": 1.3}, "dispatch": {"expert_parallel": 2, "dispatch": "alltoall"},
}  # fmt: skip
#: What a dimension's own step is compared with: the same changes without that dimension.
PARTNERS = {
    "expert_tensor_parallel": {"expert_tensor_parallel": None},
    "recompute_layers": {"recompute_layers": None}, "recompute_modules": {"recompute_modules": ()},
    "schedule": {"schedule": "1f1b"}, "reshard_after_forward": {"reshard_after_forward": True},
    "num_prefetched": {"num_prefetched": 1}, "order": {"order": "tp-cp-dp-pp"},
    "stage_layers": {"stage_layers": ()}, "dispatch": {"dispatch": None},
    "context_communication": {"context_communication": "ring"},
    "tensor_parallel_inputs": {"tensor_parallel_inputs": 1},
    "virtual_stages_per_rank": {"virtual_stages_per_rank": 1, "schedule": "1f1b"},
}  # fmt: skip
OF_EXPERTS = ("expert_parallel", "expert_tensor_parallel", "overlaps_experts", "overlaps_shared_experts",
              "capacity_factor",
              "expert_imbalance", "dispatch")  # fmt: skip


def obstacles(target, model, plan):
    """What is in the way."""
    return find_targets(plan, model, TRAININGS[target], LENGTH, cluster(plan.world_size))[target]


def test_no_dimension_is_forgotten_here():
    assert OTHERS.keys() == {part.name for part in fields(Plan)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", OTHERS)
def test_a_dimension_changes_the_files_or_is_named_as_an_obstacle(target, name):
    model = SPARSE if name in OF_EXPERTS else DENSE
    other = replace(BASES[target], **OTHERS[name])
    partner = replace(other, **PARTNERS[name]) if name in PARTNERS else BASES[target]
    if not obstacles(target, model, other) and not obstacles(target, model, partner):
        assert write(model, other, target, LENGTH) != write(model, partner, target, LENGTH)
    else:
        assert obstacles(target, model, other)


@pytest.mark.parametrize("target", TARGETS)
def test_the_launcher_states_the_degrees_and_their_product(target):
    plan = BASES[target]
    text = write(DENSE, plan, target, LENGTH)["launch.sh"].replace("\n# ", " ")
    degrees = f"dp={plan.data_parallel} · tp={plan.tensor_parallel} · pp={plan.pipeline_parallel}"
    assert f"{degrees} · cp={plan.context_parallel} = {plan.world_size} devices" in text
    assert f"{plan.num_micro_batches} micro-batches of {plan.micro_batch_size}, " in text
    assert f"{plan.global_batch_size} sequences of {LENGTH} tokens a step" in text
    assert f"kernels of '{TRAININGS[target].framework}'" in text


def test_layers_that_are_computed_again_alone_are_counted():
    plan = replace(BASES["megatron"], recompute="full", recompute_layers=3)
    arguments = write(DENSE, plan, "megatron", LENGTH)["megatron_arguments.sh"]
    assert "--recompute-method 'block'\n    --recompute-num-layers '3'\n" in arguments
    plan = replace(BASES["fsdp2"], recompute="full", recompute_layers=3)
    assert "    recompute_layers=3,\n" in write(DENSE, plan, "fsdp2", LENGTH)["fsdp2_train.py"]
    assert "on each of the first 3 layers" in write(DENSE, plan, "deepspeed", LENGTH)["launch.sh"]
