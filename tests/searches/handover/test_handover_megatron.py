from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handover_jobs import deepseek, megatron_parser, megatron_words, write

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from small_transformers import gpt, llama, mixture

LLAMA = llama(activation="silu")
CASES: dict[str, tuple[Transformer, Plan]] = {
    "data": (gpt(), Plan(data_parallel=4, num_micro_batches=2)),
    "three axes": (
        gpt(),
        Plan(
            data_parallel=2, tensor_parallel=2, pipeline_parallel=2, num_micro_batches=4, micro_batch_size=2,
            zero_stage=1, sequence_parallel=True, recompute="selective",
        ),
    ),
    "interleaved": (
        LLAMA,
        Plan(
            data_parallel=2, pipeline_parallel=4, virtual_stages_per_rank=2, schedule="interleaved",
            num_micro_batches=8, zero_stage=1, recompute="full", order="tp-cp-pp-dp",
        ),
    ),
    "uneven": (LLAMA, Plan(pipeline_parallel=3, stage_layers=(2, 3, 3), num_micro_batches=3)),
    "uneven virtual": (
        LLAMA,
        Plan(
            pipeline_parallel=2, virtual_stages_per_rank=2, schedule="interleaved", num_micro_batches=4,
            stage_layers=(1, 3, 3, 1),
        ),
    ),
    "context": (LLAMA, Plan(
        context_parallel=4, context_communication="all_gather", zero_stage=1, num_shards=2
    )),
    "zero 3": (LLAMA, Plan(data_parallel=4, zero_stage=3)),
    "optimizer away": (LLAMA, Plan(data_parallel=2, zero_stage=1, offload="optimizer")),
    "activations away": (LLAMA, Plan(data_parallel=2, offload="activations")),
    "experts": (
        mixture(activation="silu"),
        Plan(
            data_parallel=4, tensor_parallel=2, expert_parallel=4, sequence_parallel=True, zero_stage=1,
            capacity_factor=1.5,
        ),
    ),
    "latent": (
        deepseek(),
        Plan(
            data_parallel=2, pipeline_parallel=2, expert_parallel=2, overlaps_shared_experts=True,
            stage_layers=(5, 3),
        ),
    ),
    "windows": (
        replace(LLAMA, sliding_window=16, num_window_layers=4), Plan(data_parallel=2, bucket_bytes=4096),
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Transformer, Plan, argparse.Namespace]:
    model, plan = CASES[request.param]
    return model, plan, parse(write(model, plan, "megatron"), tmp_path)


def parse(files: Any, folder: Path) -> argparse.Namespace:
    return megatron_parser().parse_args(megatron_words(files, folder))


def test_every_argument_is_one_that_megatron_knows(case: Any):
    model, plan, args = case
    degrees = (args.tensor_model_parallel_size, args.pipeline_model_parallel_size, args.context_parallel_size)
    assert degrees == (plan.tensor_parallel, plan.pipeline_parallel, plan.context_parallel)
    assert (args.num_layers, args.hidden_size, args.vocab_size) == (8, 64, model.vocab_size - 1)


def test_the_batch_is_micro_batches_times_replicas_times_accumulation(case: Any):
    _, plan, args = case
    replicas = plan.world_size // (
        args.tensor_model_parallel_size * args.pipeline_model_parallel_size * args.context_parallel_size
    )
    assert args.global_batch_size == args.micro_batch_size * replicas * plan.num_micro_batches


def test_uneven_stages_are_a_layout(tmp_path: Path):
    args = parse(write(*CASES["uneven"], "megatron"), tmp_path)
    assert args.pipeline_model_parallel_layout == "Et*2|t*3|t*3L"
    args = parse(write(*CASES["uneven virtual"], "megatron"), tmp_path)
    assert args.pipeline_model_parallel_layout == "Et|t*3|t*3|tL"
    args = parse(write(*CASES["latent"], "megatron"), tmp_path)
    assert args.pipeline_model_parallel_layout == "Et*5|t*3mL"


def test_even_virtual_stages_are_a_number_of_layers(tmp_path: Path):
    args = parse(write(*CASES["interleaved"], "megatron"), tmp_path)
    assert args.num_layers_per_virtual_pipeline_stage == 1
    assert args.use_tp_pp_dp_mapping
    assert args.recompute_granularity == "full"


def test_a_bucket_of_bytes_is_one_of_fp32_elements(tmp_path: Path):
    args = parse(write(*CASES["windows"], "megatron"), tmp_path)
    assert args.ddp_bucket_size == 1024
    assert (args.window_size, args.window_attn_skip_freq) == ("15,0", "[0,1,0,1,0,1,0,1]")


def test_fully_sharded_weights_are_megatrons_own_fsdp_without_one_connection(tmp_path: Path):
    files = write(*CASES["zero 3"], "megatron")
    args = parse(files, tmp_path)
    assert (args.use_megatron_fsdp, args.data_parallel_sharding_strategy) == (True, "optim_grads_params")
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in files["launch.sh"]
    assert "CUDA_DEVICE_MAX_CONNECTIONS=1" in write(*CASES["data"], "megatron")["launch.sh"]


@pytest.mark.parametrize(
    ("model", "plan", "training", "words"),
    [
        (gpt(), Plan(pipeline_parallel=2, schedule="dualpipe", num_micro_batches=4), {}, "schedule=dualpipe"),
        (gpt(), Plan(pipeline_parallel=2, schedule="gpipe"), {}, "schedule=gpipe"),
        (gpt(), Plan(data_parallel=2, pipeline_parallel=2, zero_stage=2), {}, "zero=2 with pp=2"),
        (gpt(), Plan(data_parallel=2, offload="parameters"), {}, "offload=parameters"),
        (gpt(), Plan(tensor_parallel=2, overlaps_tensor=True), {}, "without sp"),
        (gpt(), Plan(tensor_parallel=2, pipeline_parallel=2, order="pp-tp-cp-dp"), {}, "order=pp-tp-cp-dp"),
        (gpt(), Plan(), {"optimizer": "adafactor"}, "optimizer 'adafactor'"),
        (gpt(activation="relu"), Plan(), {}, "an MLP of relu"),
        (gpt(norm_placement="after"), Plan(), {}, "norms 'after'"),
        (mixture(activation="silu"), Plan(tensor_parallel=2), {}, "experts with tp=2"),
        (gpt(), Plan(tensor_parallel=4, tensor_parallel_inputs=2), {}, "tp_inputs=2"),
    ],
)
def test_what_megatron_cannot_do_is_named(model: Transformer, plan: Plan, training: Any, words: str):
    with pytest.raises(PlanError, match="Megatron-LM cannot run this plan") as caught:
        write(model, plan, "megatron", training=Training(framework="megatron", **training))
    assert words in str(caught.value)


def test_megatron_core_takes_the_configuration(case: Any):
    """Its checks of sizes, degrees and layouts, as core_transformer_config_from_args hands them over."""
    pytest.importorskip("megatron.core", reason="megatron-core is not installed")
    model, plan, args = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = megatron_config(args)
        check_optimizer(args)
    assert config.num_layers == model.num_layers
    if config.pipeline_model_parallel_layout is not None:
        config.pipeline_model_parallel_layout.validate_layer_layout(
            num_layers=model.num_layers, mtp_num_layers=config.mtp_num_layers
        )
    stages = plan.pipeline_parallel * plan.virtual_stages_per_rank
    if plan.virtual_stages_per_rank > 1 and args.num_layers_per_virtual_pipeline_stage:
        assert args.num_layers_per_virtual_pipeline_stage * stages == model.num_layers


def megatron_config(args: argparse.Namespace) -> Any:
    """What the arguments become in megatron/training/arguments.py: core_transformer_config_from_args."""
    import dataclasses

    import torch
    from megatron.core.transformer import MLATransformerConfig, TransformerConfig

    kind = MLATransformerConfig if args.multi_latent_attention else TransformerConfig
    given = {key: value for key, value in vars(args).items() if value is not None}
    names = {field.name for field in dataclasses.fields(kind)}
    kept = {key: value for key, value in given.items() if key in names}
    for name in ("attention_backend", "window_size", "window_attn_skip_freq", "moe_layer_freq", "optimizer"):
        kept.pop(name, None)
    if kept.get("cp_comm_type"):
        kept["cp_comm_type"] = kept["cp_comm_type"][0]
    if kept.get("moe_router_load_balancing_type"):
        kept["moe_router_load_balancing_type"] = kept["moe_router_load_balancing_type"][0]
    for name, function in (("window_attn_skip_freq", eval), ("moe_layer_freq", eval)):
        if getattr(args, name):
            kept[name] = function(getattr(args, name))
    kept |= {
        "num_moe_experts": args.num_experts, "gated_linear_unit": args.swiglu,
        "add_bias_linear": not args.disable_bias_linear, "pipeline_dtype": torch.bfloat16,
        "cpu_offloading": bool(args.cpu_offloading_num_layers), "params_dtype": torch.bfloat16,
        "bias_activation_fusion": False, "activation_func": torch.nn.functional.silu if args.swiglu else
        torch.nn.functional.gelu,
    }  # fmt: skip
    return kind(**kept)


def check_optimizer(args: argparse.Namespace) -> None:
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig

    if not args.use_precision_aware_optimizer:  # asks for Transformer Engine's kernels
        OptimizerConfig(
            optimizer=args.optimizer, lr=args.lr, bf16=args.bf16,
            use_distributed_optimizer=args.use_distributed_optimizer,
        )  # fmt: skip
    DistributedDataParallelConfig(
        overlap_grad_reduce=args.overlap_grad_reduce, overlap_param_gather=args.overlap_param_gather,
        use_distributed_optimizer=args.use_distributed_optimizer, bucket_size=args.ddp_bucket_size,
        data_parallel_sharding_strategy=args.data_parallel_sharding_strategy or "no_shard",
        use_megatron_fsdp=args.use_megatron_fsdp,
    )  # fmt: skip
