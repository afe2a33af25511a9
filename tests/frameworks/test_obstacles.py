from __future__ import annotations

import pytest

from perfcast.core.plan import Plan
from perfcast.core.training import FRAMEWORKS
from perfcast.frameworks.choice import default_framework, framework_instead
from perfcast.frameworks.load import load_training_profile
from perfcast.frameworks.obstacles import plan_obstacles


def obstacles(framework: str, plan: Plan) -> tuple[str, ...]:
    return plan_obstacles(load_training_profile(framework).support, plan)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("plan", [Plan(), Plan(data_parallel=8), Plan(recompute="full", num_micro_batches=4)])
def test_every_framework_runs_replicas_and_recomputes_layers(framework: str, plan: Plan):
    assert obstacles(framework, plan) == ()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_framework_cuts_inputs_of_products(framework: str):
    found = obstacles(framework, Plan(tensor_parallel=4, tensor_parallel_inputs=2))
    assert "tp_inputs=2: 2-D tensor parallelism" in found


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_is_recommended_is_what_the_framework_has_or_another_runs_instead(framework):
    support = load_training_profile(framework).support
    for zero in support.recommended_zero_stages:
        plan = Plan(data_parallel=8, zero_stage=zero)
        assert obstacles(framework_instead(framework, plan), plan) == ()


@pytest.mark.parametrize(
    ("framework", "plan", "says"),
    [
        ("pytorch", Plan(tensor_parallel=2), "tp=2: it keeps the model whole"),
        ("nanotron", Plan(data_parallel=2, zero_stage=3), "zero=3"),
        ("nanotron", Plan(offload="optimizer"), "offload=optimizer: it has none"),
        ("megatron", Plan(data_parallel=2, pipeline_parallel=2, zero_stage=2), "zero=2 with pp=2"),
        ("megatron", Plan(pipeline_parallel=2, schedule="gpipe"), "schedule=gpipe: it has 1f1b and inter"),
        ("megatron_local", Plan(context_parallel=2), "cp=2"),
        ("deepspeed", Plan(data_parallel=4, zero_stage=3, num_shards=2), "shards=2 of 4 with zero=3: it"),
        ("fsdp", Plan(data_parallel=2, zero_stage=1), "zero=1: it shards gradients and weights too"),
        ("torchtitan", Plan(recompute="full", recompute_layers=1), "recompute_layers=1: it checkpoints all"),
        ("torchtitan", Plan(data_parallel=2, zero_stage=3, num_prefetched=2), "prefetch=2: FSDP2 gathers"),
    ],
)
def test_what_a_framework_cannot_do_is_named(framework: str, plan: Plan, says: str):
    assert any(found.startswith(says) for found in obstacles(framework, plan))


def test_plain_pytorch_hands_over_what_it_cannot_do_and_others_nothing():
    shards = Plan(data_parallel=2, zero_stage=3)
    assert default_framework(shards) == framework_instead("pytorch", shards) == "fsdp"
    assert framework_instead("pytorch", Plan(offload="optimizer")) == "deepspeed"
    assert framework_instead("pytorch", Plan(data_parallel=2, zero_stage=1)) == "pytorch"
    assert framework_instead("nanotron", shards) == "nanotron"
