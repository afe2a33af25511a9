from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.dtype import DType
from perfcast.core.model.transformer import Transformer
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan
from perfcast.core.training import DTYPES, Training
from perfcast.core.words import known_word
from perfcast.core.work import Calls, Layer, StepWork, Stream
from perfcast.errors import PlanError
from perfcast.workload.blocks import build_step_work

GPT = Transformer(
    num_layers=8, hidden_size=1024, num_attention_heads=16, num_kv_heads=16, head_size=64,
    ffn_hidden_size=4096, vocab_size=51200, positions="learned", max_positions=512,
)  # fmt: skip
LLAMA = replace(
    GPT, num_kv_heads=4, ffn_hidden_size=3072, is_gated=True, activation="silu", norm="rmsnorm",
    has_linear_bias=False, has_qkv_bias=False, ties_embeddings=False, positions="rope",
)  # fmt: skip
LLAMA_405B = replace(
    LLAMA, num_layers=126, hidden_size=16384, num_attention_heads=128, num_kv_heads=8, head_size=128,
    ffn_hidden_size=53248, vocab_size=128256,
)  # fmt: skip
MEGATRON = Training(framework="megatron")


def layer_of(work: StepWork, name: str = "layer") -> Layer:
    return next(layer for layer in work.layers if layer.name == name)


def matrix_flops(calls: Calls) -> int:
    return sum(call.count * call.operation.flops for call in calls if call.operation.uses_matrix_units)


def flops_of_ranks(work: StepWork) -> int:
    """What all ranks compute once, over the whole step."""
    total = 0
    for stage in work.stages:
        for run in (run for chunk in stage.chunks for run in chunk):
            layer = work.layers[run.layer]
            once = tuple(call for call in layer.backward if not call.is_recomputed)
            total += run.count * (matrix_flops(layer.forward) + matrix_flops(once))
    return total * work.plan.num_micro_batches * work.plan.ranks_per_stage


def names(calls: Calls, kind: OperationKind | None = None) -> Counter[str]:
    return Counter(c.operation.name for c in calls if kind is None or c.operation.kind is kind)


def test_a_gpt_layer_computes_24_b_s_h_squared_and_4_b_s_squared_h() -> None:
    """Narayanan et al. (SC 2021), section 5.1, of one forward."""
    work = build_step_work(GPT, Plan(micro_batch_size=2), MEGATRON, 512)
    b, s, h = 2, 512, 1024
    assert matrix_flops(layer_of(work).forward) == 24 * b * s * h**2 + 4 * b * s**2 * h
    assert matrix_flops(layer_of(work).backward) == 2 * (24 * b * s * h**2 + 4 * b * s**2 * h)


def test_model_flops_of_a_gpt_are_72_l_times_the_papers_bracket() -> None:
    """72·B·l·s·h²·(1 + s / 6h + V / 12lh), as that section has it without recomputation."""
    plan = Plan(micro_batch_size=2, num_micro_batches=4, data_parallel=2)
    b, s, h, layers, words = 16, 512, 1024, 8, 51200
    bracket = 72 * b * layers * s * h**2 + 12 * b * layers * s**2 * h + 6 * b * s * h * words
    assert build_step_work(GPT, plan, MEGATRON, s).flops == bracket


@settings(max_examples=25, deadline=None)
@given(
    model=st.sampled_from((GPT, LLAMA)),
    tensor=st.sampled_from((1, 2, 4)),
    pipeline=st.sampled_from((1, 2, 4)),
    data=st.integers(1, 3),
    batch=st.integers(1, 3),
    sequence_parallel=st.booleans(),
    recompute=st.sampled_from(("none", "selective", "full")),
    overlaps=st.booleans(),
)
def test_all_ranks_together_compute_the_models_flops(
    model: Transformer,
    tensor: int,
    pipeline: int,
    data: int,
    batch: int,
    sequence_parallel: bool,
    recompute: str,
    overlaps: bool,
) -> None:
    plan = Plan(
        tensor_parallel=tensor, pipeline_parallel=pipeline, data_parallel=data, micro_batch_size=batch,
        num_micro_batches=2, sequence_parallel=sequence_parallel and tensor > 1, recompute=recompute,
        overlaps_tensor=overlaps,
    )  # fmt: skip
    work = build_step_work(model, plan, MEGATRON, 512)
    assert flops_of_ranks(work) == work.flops


def test_two_dimensional_cuts_leave_the_flops_and_reduce_over_both_groups() -> None:
    plan = Plan(tensor_parallel=8, tensor_parallel_inputs=2)
    work = build_step_work(GPT, plan, MEGATRON, 512)
    assert flops_of_ranks(work) == work.flops
    groups = {
        c.operation.attribute("ranks")
        for c in layer_of(work).forward
        if c.operation.name in ("reduce_scatter", "all_gather") or c.operation.name == "all_reduce"
    }
    assert groups == {"0:4:1", "0:8:4"}


def test_tensor_parallelism_divides_every_product_of_a_layer() -> None:
    whole = build_step_work(LLAMA, Plan(), MEGATRON, 512)
    parts = build_step_work(LLAMA, Plan(tensor_parallel=4), MEGATRON, 512)
    for one, quarter in zip(
        (c for c in layer_of(whole).forward if c.operation.uses_matrix_units),
        (c for c in layer_of(parts).forward if c.operation.uses_matrix_units),
        strict=True,
    ):
        assert one.operation.flops == 4 * quarter.operation.flops


def test_full_recomputation_repeats_the_forward_with_its_collectives() -> None:
    plan = Plan(tensor_parallel=2, sequence_parallel=True, recompute="full")
    layer = layer_of(build_step_work(GPT, plan, MEGATRON, 512))
    again = [call for call in layer.backward if call.is_recomputed]
    assert [call.operation for call in again] == [call.operation for call in layer.forward]
    assert list(layer.backward[: len(again)]) == again


def test_pytorch_stops_recomputing_before_the_last_product() -> None:
    plan = Plan(recompute="full")
    layer = layer_of(build_step_work(LLAMA, plan, Training(framework="fsdp"), 512))
    products = [c.module for c in layer.forward if c.operation.uses_matrix_units]
    again = [c.module for c in layer.backward if c.is_recomputed and c.operation.uses_matrix_units]
    assert again == products[:-1]


@pytest.mark.parametrize(("attention", "repeated"), [("flash", ["attention"]), ("math", ["bmm", "bmm"])])
def test_selective_recomputation_repeats_the_core_of_attention(attention: str, repeated: list[str]) -> None:
    training = Training(framework="megatron", attention=attention)
    layer = layer_of(build_step_work(GPT, Plan(recompute="selective"), training, 512))
    again = [c for c in layer.backward if c.is_recomputed]
    assert [c.operation.name for c in again if c.operation.uses_matrix_units] == repeated
    assert {c.module for c in again} == {"attention.core"}


def test_recomputed_flops_of_full_recomputation_are_a_forward_of_the_layers() -> None:
    work = build_step_work(GPT, Plan(recompute="full", pipeline_parallel=2), MEGATRON, 512)
    head = 6 * 512 * 1024 * 51200
    assert work.recompute_flops == (work.flops - head) // 3


def test_unfused_attention_keeps_scores_in_four_products_of_the_backward() -> None:
    layer = layer_of(build_step_work(GPT, Plan(), Training(framework="megatron", attention="math"), 512))
    assert names(layer.forward)["bmm"] == 2
    assert names(layer.backward)["bmm"] == 4
    assert names(layer.forward)["_softmax"] == 1


def test_plain_pytorch_runs_more_kernels_than_megatron() -> None:
    fused = layer_of(build_step_work(LLAMA, Plan(), MEGATRON, 512))
    eager = layer_of(build_step_work(LLAMA, Plan(), Training(framework="pytorch"), 512))
    assert len(eager.forward) > 2 * len(fused.forward)


def test_fp8_narrows_the_layers_products_but_neither_attention_nor_the_head() -> None:
    work = build_step_work(LLAMA, Plan(), Training(framework="megatron", dtype="fp8"), 512)
    formats = {
        (c.module, c.operation.compute_dtype)
        for layer in (layer_of(work), layer_of(work, "head"))
        for c in layer.forward
        if c.operation.uses_matrix_units
    }
    assert formats == {
        ("attention.qkv", DType.FP8), ("attention.core", DType.BF16), ("attention.output", DType.FP8),
        ("mlp.up", DType.FP8), ("mlp.down", DType.FP8), ("head", DType.BF16),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "bits", "label"),
    [("fp8", 8, "fp8"), ("fp8_block", 8 + 32 / 128, "fp8"), ("mxfp8", 8.25, "fp8"), ("nvfp4", 4.5, "fp4")],
)
def test_operands_are_quantised_twice_with_their_scales(dtype: str, bits: float, label: str) -> None:
    """As they lie and transposed; bf16 is read, and every product of a layer is in the format."""
    training = Training(framework="megatron", dtype=known_word("dtype", dtype, DTYPES))
    calls = layer_of(build_step_work(LLAMA, Plan(), training, 512)).forward
    quantise = next(c.operation for c in calls if c.operation.name == "quantise")
    elements = quantise.inputs[0].num_elements
    assert quantise.memory_traffic_bytes == 2 * elements + 2 * elements * bits / 8
    product = next(c.operation for c in calls if c.module == "mlp.down" and c.operation.uses_matrix_units)
    assert product.compute_dtype.label == label
    assert product.attribute("format") == (None if dtype == "fp8" else dtype)


def test_only_gradients_of_weights_are_flagged_as_such() -> None:
    layer = layer_of(build_step_work(GPT, Plan(tensor_parallel=2), MEGATRON, 512))
    flagged = [c for c in layer.backward if c.is_weight_gradient and c.operation.uses_matrix_units]
    assert {c.operation.attribute("layout") for c in flagged} == {"tn"}
    assert len(flagged) == 4
    waited = {at for call in layer.backward for at in call.after}
    assert not any(layer.backward[at].is_weight_gradient for at in waited)


def test_a_call_waits_only_for_earlier_ones_on_other_streams() -> None:
    plan = Plan(tensor_parallel=4, sequence_parallel=True, overlaps_tensor=True, recompute="full")
    for layer in build_step_work(LLAMA, plan, MEGATRON, 512).layers:
        for calls in (layer.forward, layer.backward):
            for at, call in enumerate(calls):
                assert all(other < at and calls[other].stream is not call.stream for other in call.after)
            assert calls[-1].stream is Stream.COMPUTE


def test_windows_shorten_the_keys_of_their_layers() -> None:
    model = replace(LLAMA, sliding_window=128, num_window_layers=4)
    work = build_step_work(model, Plan(), MEGATRON, 512)
    assert [layer.name for layer in work.layers] == ["embedding", "layer", "windowed layer", "head"]
    (core,) = (c.operation for c in layer_of(work, "windowed layer").forward if c.module == "attention.core")
    assert core.attribute("num_keys") == 128
    assert flops_of_ranks(work) == work.flops


def test_a_further_predicted_token_costs_a_layer_a_projection_and_a_head() -> None:
    more = build_step_work(replace(LLAMA, num_prediction_layers=1), Plan(), MEGATRON, 512)
    assert flops_of_ranks(more) == more.flops
    projection, head = 6 * 512 * 2 * 1024**2, 6 * 512 * 1024 * 51200
    plain = build_step_work(LLAMA, Plan(), MEGATRON, 512)
    layer = sum(matrix_flops(part) for part in layer_of(plain).parts())
    assert more.flops - plain.flops == projection + head + layer


def test_the_largest_llama_on_16384_devices_is_built_in_no_time() -> None:
    plan = Plan(
        data_parallel=128, tensor_parallel=8, pipeline_parallel=16, num_micro_batches=16, zero_stage=1,
        sequence_parallel=True,
    )  # fmt: skip
    build_step_work(LLAMA_405B, plan, MEGATRON, 8192)
    started = time.process_time()
    work = build_step_work(LLAMA_405B, replace(plan, num_micro_batches=32), MEGATRON, 8192)
    assert time.process_time() - started < 0.1
    assert len(work.layers) == 3
    assert len(work.operations()) < 150


def test_building_needs_no_torch() -> None:
    code = "import sys, perfcast.workload.blocks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("plan", "equation"),
    [
        (Plan(tensor_parallel=3), "tp=3 does not divide 16 attention heads"),
        (Plan(pipeline_parallel=9), "pp=9 stages need at least as many layers; the model has 8"),
        (Plan(pipeline_parallel=2, stage_layers=(3, 4)), r"3 \+ 4 = 7 layers; the model has 8"),
        (Plan(tensor_parallel=4, tensor_parallel_inputs=2, sequence_parallel=True), "sp=1 with tp_inputs=2"),
        (Plan(context_parallel=16, tensor_parallel=1), "cp=16 does not divide a sequence of 500"),
    ],
)
def test_an_impossible_plan_states_its_equation(plan: Plan, equation: str) -> None:
    with pytest.raises(PlanError, match=equation):
        build_step_work(GPT, plan, MEGATRON, 500)


@pytest.mark.parametrize(("tensor_parallel", "num_kernels"), [(4, 1), (8, 5)])
def test_a_fused_softmax_takes_four_matrices_of_scores_at_a_time(tensor_parallel, num_kernels) -> None:
    """16 heads on 8 ranks leave two: scale, mask and softmax run apart, in fp32 between casts."""
    plan = Plan(tensor_parallel=tensor_parallel)
    training = Training(framework="megatron_local", attention="math")
    forward = layer_of(build_step_work(GPT, plan, training, 512)).forward
    at = [place for place, call in enumerate(forward) if call.operation.name == "bmm"]
    assert at[1] - at[0] - 1 == num_kernels


def test_megatron_waits_for_messages_unless_its_stages_are_interleaved() -> None:
    for plan, waits in (
        (Plan(pipeline_parallel=2, num_micro_batches=2), True),
        (Plan(num_micro_batches=2), False),
        (
            Plan(pipeline_parallel=2, num_micro_batches=2, virtual_stages_per_rank=2, schedule="interleaved"),
            False,
        ),
    ):
        assert build_step_work(GPT, plan, MEGATRON, 512).host_waits == waits
