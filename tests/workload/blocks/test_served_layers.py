"""Layers of models that fleets serve: linear and sparse attention, gates, joint norms, formats of parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.collective import message_bytes
from perfcast.core.model.transformer import (
    Experts,
    LatentAttention,
    LinearAttention,
    SparseAttention,
    Transformer,
)
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision, inference_precision
from perfcast.core.training import Training
from perfcast.core.work import Calls, Layer, StepWork, Stream
from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import ModelError, PlanError
from perfcast.frameworks.load import load_inference_profiles
from perfcast.workload.blocks.step.serving import build_serving_work
from perfcast.workload.blocks.step.training import build_step_work
from small_transformers import llama, mixture

HYBRID = llama(linear_attention=LinearAttention(6, 4, 8, 16, 32, 4), has_attention_gate=True)
SPARSE = llama(
    latent_attention=LatentAttention(32, 16, 8, 4, 8), sparse_attention=SparseAttention(4, 128, 256)
)
BF16 = inference_precision("bf16")
VLLM = load_inference_profiles()["vllm"]


def step(
    model: Transformer, tokens: int, *, decodes: bool = True, batch: int = 2, plan: Plan | None = None,
    precision: Precision = BF16,
) -> StepWork:  # fmt: skip
    return build_serving_work(
        model, plan or Plan(), precision, tokens, is_decode=decodes, batch_size=batch, profile=VLLM
    )


def layer(work: StepWork, name: str) -> Layer:
    return next(layer for layer in work.layers if layer.name == name)


def at(calls: Calls, module: str) -> Operation:
    return next(call.operation for call in calls if call.module == module)


def state_of(work: StepWork) -> Operation:
    return at(layer(work, "linear layer").forward, "attention.state")


# ---- linear attention ----------------------------------------------------------------------------------


def test_full_attention_closes_each_group_of_layers():
    work = step(HYBRID, 64)
    (chunk,) = work.stages[0].chunks
    held = {work.layers[run.layer].name: run.count for run in chunk}
    assert (held["linear layer"], held["layer"]) == (6, 2)


def test_a_new_token_reads_and_writes_the_state_of_its_sequence_however_long_that_is():
    short, long = (
        at(layer(step(HYBRID, n, batch=3), "linear layer").forward, "attention.state") for n in (8, 4096)
    )
    assert short == long
    state, channels = 8 * 16 * 32, 2 * 4 * 16 + 8 * 32
    assert short.memory_traffic_bytes == 3 * (2 * 4 * state + 2 * channels + 2 * 8 * 32)
    assert short.flops == 3 * 6 * state


def test_a_prompt_goes_through_the_rule_at_a_cost_in_proportion_to_its_length():
    one, two = (state_of(step(HYBRID, tokens, decodes=False, batch=1)).flops for tokens in (512, 1024))
    assert two == 2 * one


def test_heads_of_a_state_are_cut_over_ranks_and_their_number_must_divide():
    half = at(
        layer(step(HYBRID, 64, plan=Plan(tensor_parallel=2)), "linear layer").forward, "attention.state"
    )
    whole = at(layer(step(HYBRID, 64), "linear layer").forward, "attention.state")
    assert 2 * half.flops == whole.flops
    with pytest.raises(PlanError, match="4 key heads of linear layers"):
        step(replace(HYBRID, num_attention_heads=8, num_kv_heads=8), 64, plan=Plan(tensor_parallel=8))


def test_a_state_is_not_cut_along_the_sequence():
    with pytest.raises(PlanError, match="cp=2"):
        step(HYBRID, 64, decodes=False, plan=Plan(context_parallel=2))


def test_a_gate_as_wide_as_the_queries_weighs_what_attention_gives():
    plain = at(layer(step(llama(), 64), "layer").forward, "attention.qkv")
    gated = layer(step(HYBRID, 64), "layer").forward
    assert at(gated, "attention.qkv").attribute("n") == plain.attribute("n") + 8 * 8  # type: ignore[operator]
    assert at(gated, "attention.gate").outputs[0].num_elements == 2 * 8 * 8


# ---- sparse attention ------------------------------------------------------------------------------------


def test_attention_sees_no_more_tokens_than_are_kept_and_the_indexer_all():
    short, long = (layer(step(SPARSE, n), "layer").forward for n in (1024, 8192))
    assert at(short, "attention.core").executed_flops == at(long, "attention.core").executed_flops
    assert at(short, "attention.core").memory_traffic_bytes == at(long, "attention.core").memory_traffic_bytes
    assert at(long, "attention.index").executed_flops == 8 * at(short, "attention.index").executed_flops
    assert at(long, "attention.index").executed_flops == 2 * 2 * 4 * 128 * 8192


def test_nothing_is_picked_of_fewer_tokens_than_are_kept():
    kinds = [[call.operation.kind for call in layer(step(SPARSE, n), "layer").forward] for n in (256, 257)]
    assert [OperationKind.SORT in found for found in kinds] == [False, True]


def test_a_prompt_attends_to_the_compressed_vectors_of_the_tokens_picked():
    calls = layer(step(SPARSE, 1024, decodes=False, batch=1), "layer").forward
    core = at(calls, "attention.core")
    pairs = 256 * 257 // 2 + (1024 - 256) * 256
    assert core.flops == pytest.approx(
        2 * 64 * pairs * (20 + 16), rel=2e-3
    )  # 64 heads of 8: the kernel's least
    assert core.attribute("is_stand_in")
    assert not any(call.module == "attention.expand" for call in calls)


def test_every_rank_does_all_of_the_indexer():
    one, four = (
        at(layer(step(SPARSE, 1024, plan=Plan(tensor_parallel=tp)), "layer").forward, "attention.index")
        for tp in (1, 4)
    )
    assert one == four


# ---- norms, formats ----------------------------------------------------------------------------------------


def test_ranks_sum_the_squares_of_a_norm_over_all_heads():
    model = llama(has_head_norms=True, joins_head_norms=True)
    calls = layer(step(model, 64, plan=Plan(tensor_parallel=2)), "layer").forward
    sums = [c for c in calls if c.stream is Stream.TENSOR and c.module == "attention.head_norms"]
    assert len(sums) == 1
    assert message_bytes(sums[0].operation) == 2 * 2 * 4
    alone = layer(step(model, 64), "layer").forward
    assert not any(c.stream is Stream.TENSOR for c in alone)


def test_parts_of_a_layer_are_multiplied_in_their_own_formats():
    model = mixture(has_head_norms=True)
    shared = replace(model, experts=Experts(8, 2, 96, shared_ffn_hidden_size=96))
    mixed = inference_precision("nvfp4+attention=bf16+mlp=fp8")
    calls = layer(step(shared, 64, precision=mixed), "expert layer").forward
    found = {c.module: c.operation.attribute("format") for c in calls if c.operation.attribute("format")}
    assert found["attention.qkv"] == found["attention.output"] == found["experts.router"] == "bf16"
    assert found["shared.up"] == found["shared.down"] == "fp8"
    assert found["experts"] == "nvfp4"


def test_shared_experts_of_few_new_tokens_hide_beside_the_others():
    experts = Experts(8, 2, 96, shared_ffn_hidden_size=96, has_shared_gate=True)
    model = llama(experts=experts)
    shares = {
        batch: {
            call.share
            for call in layer(step(model, 64, batch=batch), "expert layer").forward
            if call.module.startswith("shared.")
        }
        for batch in (256, 257)
    }
    assert shares == {256: {0.0}, 257: {1.0}}  # vLLM's threshold
    prompts = layer(step(model, 64, decodes=False), "expert layer").forward
    assert all(call.share == 1.0 for call in prompts)


@pytest.mark.parametrize("model", [HYBRID, SPARSE, llama(has_attention_sinks=True)])
def test_a_training_that_is_not_described_says_what_is_missing(model: Transformer):
    with pytest.raises(ModelError, match=r"backward and saved tensors are missing"):
        build_step_work(model, Plan(), Training(), 64)


@pytest.mark.parametrize("model", [HYBRID, SPARSE])
@pytest.mark.parametrize("framework", ["vllm", "sglang", "trtllm", "pytorch"])
@pytest.mark.parametrize("decodes", [False, True])
def test_every_kernel_of_linear_and_sparse_attention_has_a_learned_price(
    model: Transformer, framework: str, decodes: bool
):
    operations = list(step(model, 512, decodes=decodes).operations())
    estimates = LearnedCost(framework=framework).estimate(operations, load_device("h100-sxm"))
    assert (estimates.seconds > 0).all()
