from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from handover_jobs import deepseek, read_toml, write

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.prediction.model import read_model
from perfcast.searches.handover.torchtitan_model import find_flavor
from small_transformers import gpt, llama, mixture

LLAMA = llama(activation="silu")
CASES: dict[str, Plan] = {
    "replicas": Plan(data_parallel=4, num_micro_batches=2, micro_batch_size=2),
    "sharded": Plan(data_parallel=4, zero_stage=3, num_micro_batches=2, recompute="full"),
    "hybrid": Plan(data_parallel=4, zero_stage=2, num_shards=2),
    "four axes": Plan(
        data_parallel=2, tensor_parallel=2, context_parallel=2, pipeline_parallel=2, num_micro_batches=4,
        zero_stage=2, sequence_parallel=True, micro_batch_size=2,
    ),
    "interleaved": Plan(
        data_parallel=2, pipeline_parallel=2, virtual_stages_per_rank=2, schedule="interleaved", zero_stage=2,
        num_micro_batches=4, stage_layers=(1, 3, 3, 1),
    ),
    "zero bubble": Plan(
        data_parallel=2, pipeline_parallel=2, schedule="zero_bubble", zero_stage=2, num_micro_batches=4,
    ),
    "weights away": Plan(data_parallel=4, zero_stage=3, offload="parameters", reshard_after_forward=False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_degrees_make_the_devices_and_the_batch_adds_up(name: str):
    plan, settings = CASES[name], read_toml(write(LLAMA, CASES[name], "torchtitan"))
    degrees, training = settings["parallelism"], settings["training"]
    replicas = degrees["data_parallel_replicate_degree"] * degrees["data_parallel_shard_degree"]
    rest = (
        degrees["tensor_parallel_degree"] * degrees["pipeline_parallel_degree"]
        * degrees["context_parallel_degree"]
    )  # fmt: skip
    assert replicas * rest == plan.world_size
    accumulation = training["global_batch_size"] / (training["local_batch_size"] * replicas)
    assert accumulation == (1 if plan.pipeline_parallel > 1 else plan.num_micro_batches)
    if plan.pipeline_parallel > 1:
        micro_batch = degrees["pipeline_parallel_microbatch_size"]
        assert training["local_batch_size"] == micro_batch * plan.num_micro_batches


def test_selective_recomputation_is_handed_over_as_that_of_operators():
    plan = Plan(data_parallel=2, zero_stage=3, recompute="selective")
    found = read_toml(write(LLAMA, plan, "torchtitan"))["activation_checkpoint"]
    assert found == {"mode": "selective", "selective_ac_option": "op"}


def test_parts_of_the_model_hold_the_plans_layers_and_both_ends():
    parts = read_toml(write(LLAMA, CASES["interleaved"], "torchtitan"))["parallelism"][
        "module_fqns_per_model_part"
    ]
    assert [sum(name.startswith("layers.") for name in part) for part in parts] == [1, 3, 3, 1]
    assert parts[0] == ["tok_embeddings", "layers.0"]
    assert parts[3] == ["layers.7", "norm", "output"]


def test_weights_are_kept_where_the_plan_keeps_them():
    policies = {
        name: read_toml(write(LLAMA, CASES[name], "torchtitan"))["parallelism"]["fsdp_reshard_after_forward"]
        for name in ("sharded", "hybrid", "weights away")
    }
    assert policies == {"sharded": "always", "hybrid": "never", "weights away": "never"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("llama3-70b", ("llama3", "70B")), ("qwen3-8b", ("qwen3", "8B")),
        ("qwen3-235b-a22b", ("qwen3", "235B-A22B")), ("deepseek-v3", ("deepseek_v3", "671B")),
    ],
)  # fmt: skip
def test_models_that_torchtitan_has_are_found_by_their_sizes(name: str, found: tuple[str, str]):
    flavor = find_flavor(name, read_model(name).sizes)
    assert flavor is not None
    assert (flavor.name, flavor.flavor, flavor.module) == (*found, "")


@pytest.mark.parametrize("width", [11008, 13824, 28672, 192, 193])
def test_the_width_of_a_new_llamas_mlp_comes_out_as_torchtitan_computes_it(width: int):
    flavor = find_flavor("new", llama(activation="silu", ffn_hidden_size=width))
    assert flavor is not None
    given: dict[str, Any] = {}
    for line in flavor.module.splitlines():
        key, _, value = line.strip().rstrip(",").partition("=")
        if key in ("dim", "multiple_of", "ffn_dim_multiplier"):
            given[key] = float(value)
    hidden = int(given["ffn_dim_multiplier"] * int(2 * (4 * given["dim"]) / 3))
    multiple = given["multiple_of"]
    assert multiple * ((hidden + multiple - 1) // multiple) == width


@pytest.mark.parametrize(
    ("model", "plan", "training", "words"),
    [
        (LLAMA, Plan(pipeline_parallel=2, schedule="dualpipe", num_micro_batches=4), {}, "schedule=dualpipe"),
        (LLAMA, Plan(data_parallel=2, zero_stage=1), {}, "zero=1"),
        (LLAMA, Plan(data_parallel=2, tensor_parallel=2, zero_stage=3), {}, "tp=2 without sp"),
        (LLAMA, Plan(data_parallel=2, pipeline_parallel=2), {}, "zero=0 beside another parallelism"),
        (LLAMA, Plan(pipeline_parallel=2), {}, "bf16 without sharded data parallelism"),
        (LLAMA, Plan(context_parallel=2, context_communication="ulysses", zero_stage=3), {},
         "cp_type=ulysses"),
        (
            LLAMA,
            Plan(
                data_parallel=2, pipeline_parallel=2, schedule="zero_bubble", zero_stage=2,
                num_micro_batches=5,
            ),
            {},
            "not 2 equal rounds",
        ),
        (LLAMA, Plan(), {"dtype": "fp16"}, "dtype 'fp16'"),
        (gpt(), Plan(), {}, "the architecture of"),
        (mixture(activation="silu"), Plan(), {}, "the architecture of"),
        (deepseek(), Plan(), {}, "the architecture of"),
    ],
)  # fmt: skip
def test_what_torchtitan_cannot_do_is_named(model: Transformer, plan: Plan, training: Any, words: str):
    with pytest.raises(PlanError, match="torchtitan cannot run this plan") as caught:
        write(model, plan, "torchtitan", training=Training(framework="fsdp", **training))
    assert words in str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_torchtitan_takes_the_file(name: str, tmp_path: Path):
    """Its own parser, the check of its degrees, and its division of micro-batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config_module = pytest.importorskip("torchtitan.config", reason="torchtitan is not installed")
        if not hasattr(config_module, "JobConfig"):
            pytest.skip("this torchtitan reads no TOML file")
        from torchtitan.distributed import ParallelDims

        path = tmp_path / "torchtitan.toml"
        path.write_text(write(LLAMA, CASES[name], "torchtitan")["torchtitan.toml"], encoding="utf-8")
        config = config_module.ConfigManager().parse_args(["--job.config_file", str(path)])
        degrees = config.parallelism
        ParallelDims(
            dp_replicate=degrees.data_parallel_replicate_degree,
            dp_shard=degrees.data_parallel_shard_degree, cp=degrees.context_parallel_degree,
            tp=degrees.tensor_parallel_degree, pp=degrees.pipeline_parallel_degree,
            ep=degrees.expert_parallel_degree, etp=degrees.expert_tensor_parallel_degree,
            world_size=CASES[name].world_size,
        )  # fmt: skip
        from torch.distributed.pipelining.schedules import get_schedule_class

        get_schedule_class(degrees.pipeline_parallel_schedule)
    assert config.training.global_batch_size == CASES[name].global_batch_size
