from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.catalogs.devices import load_device
from perfcast.core.collective import message_bytes
from perfcast.core.dtype import DType
from perfcast.core.model.transformer import Experts, LatentAttention, Transformer
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.precision import inference_precision
from perfcast.core.work import Calls, Layer, StepWork, Stream
from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import ModelError, PlanError
from perfcast.frameworks.load import load_inference_profiles
from perfcast.frameworks.profile import InferenceProfile
from perfcast.workload.blocks.step.serving import build_serving_work, serving_flops
from small_transformers import gpt, llama, mixture

LATENT = llama(
    experts=Experts(8, 2, 96, shared_ffn_hidden_size=96, num_dense_layers=1),
    latent_attention=LatentAttention(32, 16, 8, 4, 8),
)
S = 64
TENSORRT, VLLM = (load_inference_profiles()[name] for name in ("trtllm", "vllm"))


def prefill(model: Transformer, plan: Plan | None = None, dtype: str = "bf16", **asked: object) -> StepWork:
    return build_serving_work(model, plan or Plan(), inference_precision(dtype), S, is_decode=False, **asked)  # type: ignore[arg-type]


def decode(
    model: Transformer,
    plan: Plan | None = None,
    dtype: str = "bf16",
    cache: str | None = None,
    **asked: object,
) -> StepWork:
    precision = inference_precision(dtype, cache)
    return build_serving_work(model, plan or Plan(), precision, S, is_decode=True, **asked)  # type: ignore[arg-type]


def layer(work: StepWork, name: str) -> Layer:
    return next(layer for layer in work.layers if layer.name == name)


def at(calls: Calls, module: str) -> Operation:
    return next(call.operation for call in calls if call.module == module)


def executed_flops(work: StepWork) -> int:
    """Products and attention of all ranks of one replica, every pair counted."""
    return work.plan.tensor_parallel * sum(
        run.count * call.operation.flops
        for stage in work.stages
        for chunk in stage.chunks
        for run in chunk
        for call in work.layers[run.layer].forward
        if call.operation.uses_matrix_units
    )


def exchanged(calls: Calls, stream: Stream) -> list[tuple[str, str, int]]:
    return [
        (call.module, call.operation.name, message_bytes(call.operation))
        for call in calls
        if call.stream is stream
    ]


# ---- by hand -----------------------------------------------------------------------------------------


def test_a_prompt_is_multiplied_with_every_weight_and_its_last_token_with_the_head():
    work = prefill(llama(), batch_size=3)
    weights = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 192
    pairs = S * S * 8 * (8 + 8)
    assert work.num_tokens == 3 * S
    assert work.flops == 3 * (8 * (2 * S * weights + 2 * pairs) + 2 * 64 * 512)
    assert executed_flops(work) == work.flops


def test_a_new_token_attends_to_the_whole_cache():
    work = decode(llama(), batch_size=5)
    core = at(layer(work, "layer").forward, "attention.core")
    assert (core.attribute("num_queries"), core.attribute("num_keys")) == (1, S)
    queries_and_outputs = 5 * 8 * (8 + 8) * 2
    assert core.memory_traffic_bytes == queries_and_outputs + 5 * S * 4 * (8 + 8) * 2
    assert work.num_tokens == 5
    assert executed_flops(work) == work.flops


@pytest.mark.parametrize("model", [gpt(), llama(), mixture()])
@pytest.mark.parametrize("build", [prefill, decode])
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_ranks_together_compute_what_the_model_asks_for(model: Transformer, build: object, tp: int):
    work: StepWork = build(model, Plan(tensor_parallel=tp))  # type: ignore[operator]
    copied = (tp - 1) * _router_flops(work)
    assert executed_flops(work) == work.flops + copied


def _router_flops(work: StepWork) -> int:
    """Every tensor-parallel rank routes all tokens."""
    if work.plan.world_size and not any(name.name == "expert layer" for name in work.layers):
        return 0
    tokens = at(layer(work, "expert layer").forward, "experts.router").flops
    return 8 * tokens


def test_two_all_reduces_join_the_parts_of_a_layer():
    calls = layer(prefill(llama(), Plan(tensor_parallel=2)), "layer").forward
    each = S * 64 * 2
    assert exchanged(calls, Stream.TENSOR) == [
        ("attention.output", "all_reduce", each),
        ("mlp.down", "all_reduce", each),
    ]
    norm = next(call for call in calls if call.module == "mlp.norm")
    assert [calls[place].operation.name for place in norm.after] == ["all_reduce"]


def test_logits_of_the_last_tokens_are_gathered():
    calls = layer(prefill(llama(), Plan(tensor_parallel=4), batch_size=3), "head").forward
    assert at(calls, "head.logits").flops == 2 * 3 * 64 * (512 // 4)
    assert exchanged(calls, Stream.TENSOR) == [("head.logits", "all_gather", 3 * 512 * 2)]


def test_a_vocabulary_that_does_not_divide_is_cut_in_parts_of_which_the_last_is_short():
    calls = layer(decode(llama(vocab_size=510), Plan(tensor_parallel=4)), "head").forward
    assert at(calls, "head.logits").attribute("n") == 128


# ---- pipeline ----------------------------------------------------------------------------------------


def test_stages_hold_the_embedding_layers_and_the_head_in_order():
    model = llama(num_layers=6, experts=Experts(8, 2, 96, num_dense_layers=1))
    work = prefill(model, Plan(pipeline_parallel=4, stage_layers=(1, 2, 2, 1)))
    held = [[(work.layers[run.layer].name, run.count) for run in stage.chunks[0]] for stage in work.stages]
    assert held == [
        [("embedding", 1), ("layer", 1)],
        [("expert layer", 2)],
        [("expert layer", 2)],
        [("expert layer", 1), ("head", 1)],
    ]


def test_a_stage_sends_its_tokens_to_the_next():
    work = decode(llama(), Plan(pipeline_parallel=2, num_micro_batches=2), batch_size=16)
    assert work.boundary is not None
    assert message_bytes(work.boundary) == 16 * 64 * 2
    assert work.num_tokens == 32
    assert decode(llama()).boundary is None


def test_stages_must_hold_all_layers():
    with pytest.raises(PlanError, match=r"stages of 3 \+ 4 = 7 layers; the model has 8"):
        prefill(llama(), Plan(pipeline_parallel=2, stage_layers=(3, 4)))


# ---- experts -----------------------------------------------------------------------------------------


def fused(calls: Calls) -> Operation:
    return at(calls, "experts")


def test_experts_within_the_tensor_parallel_group_send_no_tokens():
    calls = layer(decode(mixture(), Plan(tensor_parallel=4, expert_parallel=4)), "expert layer").forward
    assert exchanged(calls, Stream.EXPERT) == []
    assert ("experts.output", "all_reduce", 64 * 2) in exchanged(calls, Stream.TENSOR)
    assert fused(calls).attribute("num_tokens") == 1


def test_experts_spread_over_replicas_take_their_tokens():
    work = decode(mixture(), Plan(data_parallel=8, expert_parallel=8), batch_size=4)
    calls = layer(work, "expert layer").forward
    each = 4 * 2 * 64 * 2  # sequences · experts a token · hidden · bytes
    assert exchanged(calls, Stream.EXPERT) == [
        ("experts.dispatch", "all_to_all", each),
        ("experts.combine", "all_to_all", each),
    ]
    assert fused(calls).attribute("num_tokens") == 32
    assert fused(calls).flops == 2 * (32 * 2 // 8) * 3 * 64 * 96
    assert work.num_tokens == 32


@pytest.mark.parametrize(
    ("framework", "ranks", "inwards", "back"),
    [
        ("vllm", 8, "all_gather", "reduce_scatter"),
        ("sglang", 2, "all_gather", "reduce_scatter"),
        ("sglang", 8, "all_to_all", "all_to_all"),
        ("trtllm", 2, "all_gather", "reduce_scatter"),
        ("trtllm", 8, "all_to_all", "all_to_all"),
        ("pytorch", 8, "all_to_all", "all_to_all"),
    ],
)
def test_frameworks_gather_tokens_for_experts_of_other_ranks_or_send_copies(
    framework: str, ranks: int, inwards: str, back: str
):
    """Eight experts of which a token visits two; 4 tokens a rank of 64 elements of two bytes."""
    plan = Plan(data_parallel=ranks, expert_parallel=ranks)
    profile = load_inference_profiles()[framework]
    work = decode(mixture(), plan, batch_size=4, profile=profile)
    there, behind = exchanged(layer(work, "expert layer").forward, Stream.EXPERT)
    assert (there[1], behind[1]) == (inwards, back)
    if inwards == "all_gather":
        assert there[2] == behind[2] == ranks * 4 * 64 * 2
    assert any("dispatch=" in said for said in work.assumptions)


def test_a_plan_that_says_how_tokens_travel_is_obeyed():
    plan = Plan(data_parallel=8, expert_parallel=8, dispatch="deepep")
    work = decode(mixture(), plan, batch_size=4, profile=load_inference_profiles()["vllm"])
    assert {name for _, name, _ in exchanged(layer(work, "expert layer").forward, Stream.EXPERT)} == {
        "dispatch"
    }


def test_ranks_that_cut_an_expert_share_the_rows_of_different_tokens():
    plan = Plan(data_parallel=2, tensor_parallel=4, expert_parallel=4, expert_tensor_parallel=2)
    calls = layer(decode(mixture(), plan, batch_size=8), "expert layer").forward
    own = 8 // 4 * 2 * 64 * 2
    assert exchanged(calls, Stream.EXPERT) == [
        ("experts.dispatch", "all_to_all", own),
        ("experts.gather", "all_gather", 2 * own),
        ("experts.scatter", "reduce_scatter", 2 * own),
        ("experts.combine", "all_to_all", own),
    ]
    assert ("experts.output", "all_gather", 8 * 64 * 2) in exchanged(calls, Stream.TENSOR)


def test_ranks_that_cut_all_experts_share_each_token_once():
    """Attention by ranks, experts cut by all of them: tokens are gathered, not a copy for each choice."""
    plan = Plan(data_parallel=4, expert_tensor_parallel=4)
    calls = layer(decode(mixture(), plan, batch_size=8), "expert layer").forward
    gathered = 4 * 8 * 64 * 2
    shared = [
        each for each in exchanged(calls, Stream.EXPERT) if each[0] in ("experts.gather", "experts.scatter")
    ]
    assert shared == [
        ("experts.gather", "all_gather", gathered),
        ("experts.scatter", "reduce_scatter", gathered),
    ]


def test_quantised_rows_travel_narrow_to_the_experts_and_wide_back():
    work = decode(mixture(), Plan(data_parallel=8, expert_parallel=8), "fp8_block", batch_size=4)
    there, back = exchanged(layer(work, "expert layer").forward, Stream.EXPERT)
    assert 2 * there[2] == back[2]


def test_experts_that_no_token_visits_are_not_read():
    few = fused(layer(decode(mixture(), batch_size=1), "expert layer").forward)
    many = fused(layer(decode(mixture(), batch_size=64), "expert layer").forward)
    expert = 3 * 64 * 96 * 2
    assert few.memory_traffic_bytes == 2 * expert + 2 * 64 * 2
    assert many.memory_traffic_bytes == 8 * expert + 2 * 64 * 64 * 2


def test_few_tokens_visit_fewer_experts_than_they_have_choices():
    """Four tokens with two of eight each: 8 · (1 - (3/4)^4) = 5.5 different ones where they choose freely."""
    spread, whole = Plan(data_parallel=8, expert_parallel=8, expert_imbalance=1.5), Plan()
    experts = [
        fused(layer(decode(mixture(), plan, batch_size=4), "expert layer").forward)
        for plan in (whole, spread)
    ]
    assert [each.attribute("popularity") for each in experts] == ["power_law_1.01", "balanced"]
    assert experts[0].memory_traffic_bytes == 6 * 3 * 64 * 96 * 2 + 2 * 4 * 64 * 2


@settings(max_examples=20, deadline=None)
@given(imbalance=st.floats(1, 8), more=st.floats(0, 4), batch=st.integers(1, 64))
def test_more_imbalance_is_never_less_work(imbalance: float, more: float, batch: int):
    plan = Plan(data_parallel=8, expert_parallel=8, expert_imbalance=imbalance)
    less = fused(layer(decode(mixture(), plan, batch_size=batch), "expert layer").forward)
    worse = replace(plan, expert_imbalance=imbalance + more)
    most = fused(layer(decode(mixture(), worse, batch_size=batch), "expert layer").forward)
    assert less.flops <= most.flops


# ---- latent attention --------------------------------------------------------------------------------


def test_a_new_token_attends_to_compressed_vectors_themselves():
    calls = layer(decode(LATENT, batch_size=5), "layer").forward
    core = at(calls, "attention.core")
    assert (core.attribute("kv_heads"), core.attribute("head_size")) == (1, 16 + 4)
    assert core.attribute("value_head_size") == 16
    assert core.memory_traffic_bytes == 5 * 8 * (20 + 16) * 2 + 5 * S * 20 * 2
    assert at(calls, "attention.absorb").flops == 2 * 5 * 8 * 8 * 16
    assert at(calls, "attention.release").flops == 2 * 5 * 8 * 16 * 8


def test_a_prompt_expands_its_keys_and_values():
    work = prefill(LATENT)
    calls = layer(work, "layer").forward
    assert at(calls, "attention.expand").flops == 2 * S * 16 * 8 * (8 + 8)
    assert at(calls, "attention.core").attribute("kv_heads") == 8
    assert executed_flops(work) == work.flops


def test_compression_is_whole_on_every_rank():
    one, two = (layer(prefill(LATENT, Plan(tensor_parallel=tp)), "layer").forward for tp in (1, 2))
    assert at(one, "attention.compress") == at(two, "attention.compress")
    assert at(one, "attention.expand").flops == 2 * at(two, "attention.expand").flops


# ---- sequences that are cut --------------------------------------------------------------------------


def test_a_prompt_in_parts_gathers_all_keys_and_values():
    calls = layer(prefill(llama(), Plan(context_parallel=4)), "layer").forward
    assert exchanged(calls, Stream.CONTEXT) == [("attention.keys", "all_gather", S * 2 * 4 * 8 * 2)]
    core = at(calls, "attention.core")
    assert (core.attribute("num_queries"), core.attribute("num_keys")) == (16, 64)


def test_a_cache_in_parts_is_read_in_parts_whose_outputs_are_joined():
    calls = layer(decode(llama(), Plan(context_parallel=4)), "layer").forward
    assert at(calls, "attention.core").attribute("num_keys") == 16
    assert exchanged(calls, Stream.CONTEXT) == [("attention.merge", "all_gather", 4 * (8 * 8 * 2 + 8 * 4))]


# ---- formats -----------------------------------------------------------------------------------------


def test_formats_decide_the_bytes_of_weights():
    def traffic(dtype: str) -> int:
        return at(layer(decode(llama(), Plan(), dtype), "layer").forward, "mlp.down").memory_traffic_bytes

    weights, rest = 192 * 64, (192 + 64) * 2
    assert traffic("bf16") == 2 * weights + rest
    groups = weights // 128
    assert traffic("int4_wo") == weights // 2 + 2 * groups + rest
    work = decode(llama(), Plan(), "fp8_block")
    product = at(layer(work, "layer").forward, "mlp.down")
    tiles, blocks = 192 // 128 + 1, 1  # scales of four bytes, rounded up
    assert product.memory_traffic_bytes == weights + 192 + 64 * 2 + 4 * tiles - 2 + 4 * blocks - 1
    assert product.compute_dtype is DType.FP8


@pytest.mark.parametrize("dtype", ["fp8", "fp8_static", "fp8_token", "fp8_block", "nvfp4", "sq"])
def test_a_product_quantises_its_operand_in_the_same_call(dtype: str):
    """As the calls of serving frameworks were measured: nothing is counted twice."""
    names = [call.operation.name for call in layer(decode(llama(), Plan(), dtype), "layer").forward]
    assert not [name for name in names if "quant" in name]


def test_norms_and_activations_that_quantise_hand_over_narrow_operands():
    def calls(dtype: str) -> Calls:
        return layer(
            decode(llama(), Plan(), dtype, profile=load_inference_profiles()["trtllm"]), "layer"
        ).forward

    for module in ("attention.norm", "mlp.norm", "mlp.activation"):
        assert at(calls("fp8"), module).outputs[-1].dtype is DType.FP8
        assert at(calls("fp8_block"), module).outputs[-1].dtype is DType.BF16
        assert at(calls("bf16"), module).outputs[-1].dtype is DType.BF16
    assert at(calls("fp8"), "mlp.down").attribute("is_quantised") is True
    assert at(calls("fp8_block"), "mlp.down").attribute("is_quantised") is None


def test_an_all_reduce_that_takes_the_norm_along_leaves_none_while_decoding():
    def names(plan: Plan, build: Callable[..., StepWork]) -> set[str]:
        return {c.operation.name for c in layer(build(llama(), plan, profile=TENSORRT), "layer").forward}

    cut = Plan(tensor_parallel=2)
    assert "rms_norm" not in names(cut, decode)
    assert "rms_norm" in names(cut, prefill)
    assert "rms_norm" in names(Plan(), decode)


def test_a_call_of_attention_that_rotates_and_writes_the_cache_has_no_kernels_beside_it():
    calls = layer(decode(llama(), cache="fp8", profile=TENSORRT), "layer").forward
    assert not {"reshape_and_cache", "rope"} & {call.operation.name for call in calls}


def test_experts_that_choose_themselves_have_a_product_before_them_and_nothing_else():
    def routed(profile: InferenceProfile) -> list[str]:
        calls = layer(decode(mixture(), profile=profile), "expert layer").forward
        return [call.operation.name for call in calls if call.module == "experts.router"]

    assert routed(TENSORRT) == ["mm"]
    assert routed(VLLM) == ["mm", "_softmax", "topk"]


def test_head_and_router_are_not_quantised():
    work = decode(mixture(), Plan(), "nvfp4")
    assert at(layer(work, "head").forward, "head.logits").attribute("format") == "bf16"
    assert at(layer(work, "expert layer").forward, "experts.router").attribute("format") == "bf16"
    assert fused(layer(work, "expert layer").forward).attribute("format") == "nvfp4"


def test_a_narrow_cache_is_read_with_half_the_bytes():
    def keys(cache: str | None) -> int:
        core = at(layer(decode(llama(), cache=cache), "layer").forward, "attention.core")
        return core.memory_traffic_bytes - 8 * (8 + 8) * 2

    assert 2 * keys("fp8") == keys(None)


# ---- kinds of models ---------------------------------------------------------------------------------


def test_windowed_layers_read_no_more_keys_than_their_window():
    work = decode(llama(sliding_window=16, num_window_layers=6))
    core = at(layer(work, "windowed layer").forward, "attention.core")
    assert core.attribute("window") == 16
    assert core.executed_flops == 2 * 8 * 16 * 16
    counts = {work.layers[run.layer].name: run.count for run in work.stages[0].chunks[0]}
    assert (counts["layer"], counts["windowed layer"]) == (2, 6)


def test_norms_stand_where_the_model_has_them():
    def norms(placement: str) -> int:
        calls = layer(decode(llama(norm_placement=placement)), "layer").forward
        return sum(call.operation.name == "rms_norm" for call in calls)

    assert [norms(p) for p in ("before", "after", "both", "shared", "parallel")] == [2, 2, 4, 1, 2]


def test_decoding_issues_no_kernels_one_by_one():
    assert {call.num_launches for layer in decode(llama()).layers for call in layer.forward} == {0}
    eager = decode(llama(), replays_graph=False)
    assert {call.num_launches for layer in eager.layers for call in layer.forward} == {1}


def test_encoders_are_not_decoded():
    encoder = llama(is_causal=False)
    with pytest.raises(ModelError, match="not decoded"):
        decode(encoder)
    core = at(layer(prefill(encoder), "layer").forward, "attention.core")
    assert core.attribute("causal") is False


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(data_parallel=2, zero_stage=3), "zero=3: inference has zero=0 only"),
        (Plan(pipeline_parallel=2, virtual_stages_per_rank=2, schedule="interleaved"), "vp=2"),
        (Plan(tensor_parallel=4, tensor_parallel_inputs=2), "tp_inputs=2"),
    ],
)
def test_what_only_a_training_does_is_refused(plan: Plan, says: str):
    with pytest.raises(PlanError, match=says):
        prefill(llama(), plan)


def test_nothing_is_not_answered():
    with pytest.raises(PlanError, match="0 sequences of 64 tokens"):
        prefill(llama(), batch_size=0)
    with pytest.raises(PlanError, match="tp=3 does not divide 8"):
        prefill(llama(), Plan(tensor_parallel=3))


@given(batch=st.integers(1, 32), length=st.integers(1, 4096))
def test_a_prompt_costs_as_many_flops_as_its_tokens_one_by_one_or_more(batch: int, length: int):
    whole = serving_flops(llama(), batch, length, is_decode=False)
    assert whole >= serving_flops(llama(), batch, length, is_decode=True)


@settings(max_examples=20, deadline=None)
@given(
    tp=st.sampled_from([1, 2, 4]), dp=st.sampled_from([1, 2, 4]), ep=st.sampled_from([1, 2, 4, 8]),
    etp=st.sampled_from([1, 2, 4]), batch=st.integers(1, 8).map(lambda n: 4 * n),
)  # fmt: skip
def test_ranks_together_take_each_token_to_each_of_its_experts_once(
    tp: int, dp: int, ep: int, etp: int, batch: int
):
    """Rows × the part of an expert that a rank has; ranks that hold equal experts share the tokens."""
    if (dp * tp) % (ep * etp):
        return
    plan = Plan(tensor_parallel=tp, data_parallel=dp, expert_parallel=ep, expert_tensor_parallel=etp)
    kernel = fused(layer(decode(mixture(), plan, batch_size=batch), "expert layer").forward)
    each = 2 * 3 * 64 * 96
    assert plan.ranks_per_stage * kernel.flops == pytest.approx(batch * dp * 2 * each, rel=1e-9)


@pytest.mark.parametrize("model", [llama(), mixture(), LATENT])
@pytest.mark.parametrize("dtype", ["bf16", "fp8_block", "nvfp4", "int4_wo"])
@pytest.mark.parametrize("build", [prefill, decode])
def test_every_kernel_has_a_learned_price(model: Transformer, dtype: str, build: object):
    work: StepWork = build(model, Plan(), dtype)  # type: ignore[operator]
    priced = LearnedCost(framework="trtllm").estimate(work.operations(), load_device("b200"))
    assert (priced.seconds > 0).all()
    assert "bounded" not in priced.provenance
