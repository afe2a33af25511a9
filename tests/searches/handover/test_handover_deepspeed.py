from __future__ import annotations

import warnings
from typing import Any

import pytest
from handover_jobs import read_json, write

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from small_transformers import gpt

CASES: dict[str, Plan] = {
    "replicas": Plan(data_parallel=4, micro_batch_size=2, num_micro_batches=3),
    "zero 1": Plan(data_parallel=4, zero_stage=1, bucket_bytes=2048),
    "zero 2, optimizer away": Plan(data_parallel=4, zero_stage=2, offload="optimizer"),
    "zero 3, weights away": Plan(data_parallel=4, zero_stage=3, offload="parameters", recompute="full"),
    "zero 3, not ahead": Plan(data_parallel=4, zero_stage=3, num_prefetched=0),
    "inputs away": Plan(data_parallel=4, recompute="full", offload="activations"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_batch_is_micro_batch_times_accumulation_times_replicas(name: str):
    plan, config = CASES[name], read_json(write(gpt(), CASES[name], "deepspeed"))
    product = (
        config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * plan.data_parallel
    )
    assert config["train_batch_size"] == product == plan.global_batch_size
    assert config["zero_optimization"]["stage"] == plan.zero_stage


def test_what_lives_in_the_hosts_memory_is_said():
    config = read_json(write(gpt(), CASES["zero 3, weights away"], "deepspeed"))
    assert config["zero_optimization"]["offload_param"]["device"] == "cpu"
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert config["activation_checkpointing"]["cpu_checkpointing"] is False
    config = read_json(write(gpt(), CASES["inputs away"], "deepspeed"))
    assert config["activation_checkpointing"]["cpu_checkpointing"] is True


def test_a_bucket_of_bytes_is_one_of_bf16_elements():
    config = read_json(write(gpt(), CASES["zero 1"], "deepspeed"))
    assert config["zero_optimization"]["reduce_bucket_size"] == 1024


@pytest.mark.parametrize(
    ("plan", "training", "words"),
    [
        (Plan(tensor_parallel=2), {}, "tp=2"),
        (Plan(pipeline_parallel=2), {}, "pp=2"),
        (Plan(context_parallel=2), {}, "cp=2"),
        (Plan(data_parallel=4, zero_stage=3, num_shards=2), {}, "shards=2"),
        (Plan(data_parallel=2, offload="optimizer"), {}, "offload=optimizer without ZeRO"),
        (Plan(data_parallel=2, zero_stage=2, offload="parameters"), {}, "offload=parameters without zero=3"),
        (Plan(data_parallel=2, recompute="selective"), {}, "recompute=selective"),
        (Plan(), {"dtype": "fp8"}, "dtype 'fp8'"),
    ],
)
def test_what_the_configuration_cannot_say_is_named(plan: Plan, training: Any, words: str):
    with pytest.raises(PlanError, match="DeepSpeed cannot run this plan") as caught:
        write(gpt(), plan, "deepspeed", training=Training(framework="deepspeed", **training))
    assert words in str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_deepspeed_takes_the_file(name: str, monkeypatch: pytest.MonkeyPatch):
    """Its own parser, its check of the batch among it, on as many ranks as the plan has."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("deepspeed.runtime.config", reason="deepspeed is not installed")
        monkeypatch.setattr(module.dist, "get_rank", lambda: 0)
        monkeypatch.setattr(module.dist, "get_world_size", lambda: CASES[name].world_size)
        config = module.DeepSpeedConfig(read_json(write(gpt(), CASES[name], "deepspeed")))
    assert config.world_size == CASES[name].world_size
    assert config.train_batch_size == CASES[name].global_batch_size
    assert config.zero_config.stage == CASES[name].zero_stage
