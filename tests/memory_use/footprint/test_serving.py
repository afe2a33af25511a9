"""Memory of inference by hand."""

from __future__ import annotations

import math

import pytest

from perfcast.core.forecast.footprint import PeakCandidate
from perfcast.core.model.transformer import LatentAttention, Transformer
from perfcast.core.model.weights import count_parameters
from perfcast.core.plan import Plan
from perfcast.core.precision import inference_precision
from perfcast.errors import PlanError
from perfcast.memory_use.footprint.serving import ServingSetting, serving_stages
from perfcast.units import KIB
from small_transformers import gpt, llama, mixture, term_of

V, H = 512, 64
LLAMA_70B = llama(
    heads=64,
    kv_heads=8,
    num_layers=80,
    hidden_size=8192,
    head_size=128,
    ffn_hidden_size=28672,
    vocab_size=128256,
)


def peaks(
    model: Transformer,
    plan: Plan,
    dtype: str = "bf16",
    tokens: int = 100,
    *,
    is_decode: bool = True,
    cache_dtype: str | None = None,
) -> list[PeakCandidate]:
    """What a rank of each stage holds."""
    found = serving_stages(
        ServingSetting(model, inference_precision(dtype, cache_dtype), tokens, is_decode), plan
    )
    return [stage.peak for stage in found]


def first(
    model: Transformer,
    plan: Plan,
    dtype: str = "bf16",
    tokens: int = 100,
    *,
    is_decode: bool = True,
    cache_dtype: str | None = None,
) -> PeakCandidate:
    """What one of the first stage holds."""
    return peaks(model, plan, dtype, tokens, is_decode=is_decode, cache_dtype=cache_dtype)[0]


def cache(model: Transformer, plan: Plan, dtype: str, tokens: int) -> int:
    return size(first(model, plan, tokens=tokens, cache_dtype=dtype), "keys and values")


def size(found: PeakCandidate, name: str) -> int:
    term = term_of(found, name)
    return term.num_bytes if term else 0


def test_llama3_70b_keeps_320_kibibytes_a_token():
    """2 · 80 layers · 8 heads · 128 · 2 bytes."""
    assert cache(LLAMA_70B, Plan(), "bf16", 1) == 320 * KIB
    assert cache(LLAMA_70B, Plan(tensor_parallel=8), "bf16", 1) == 40 * KIB
    assert cache(LLAMA_70B, Plan(), "fp8", 1) == 160 * KIB


def test_a_head_of_keys_is_never_cut_in_two():
    eight, sixteen = (cache(LLAMA_70B, Plan(tensor_parallel=t), "bf16", 1) for t in (8, 16))
    assert eight == sixteen


def test_deepseek_v2_keeps_576_elements_a_token_and_layer_whatever_the_tensor_parallelism():
    latent = LatentAttention(1536, 512, 128, 64, 128)
    model = llama(heads=128, kv_heads=128, num_layers=60, latent_attention=latent)
    for degree in (1, 8):
        assert cache(model, Plan(tensor_parallel=degree), "bf16", 1) == 60 * 576 * 2


def test_context_parallelism_and_stages_share_the_cache():
    plan = Plan(context_parallel=4, pipeline_parallel=2, micro_batch_size=3)
    assert size(first(llama(), plan), "keys and values") == 2 * 4 * 3 * 25 * 2 * 32


@pytest.mark.parametrize(("micro_batches", "held"), [(1, 1), (3, 3), (4, 4), (9, 4)])
def test_a_pipeline_holds_the_caches_of_as_many_micro_batches_as_it_has_stages(micro_batches: int, held: int):
    plan = Plan(pipeline_parallel=4, micro_batch_size=3, num_micro_batches=micro_batches)
    assert size(first(llama(), plan), "keys and values") == 2 * 2 * held * 3 * 100 * 2 * 32


@pytest.mark.parametrize(("tokens", "rows"), [(20, 8 * 20), (100, 2 * 100 + 6 * 32)])
def test_layers_with_a_window_keep_no_more_than_it(tokens: int, rows: int):
    model = llama(sliding_window=32, num_window_layers=6)
    assert cache(model, Plan(), "bf16", tokens) == 2 * rows * 2 * 32


def test_latent_attention_works_with_its_own_widths():
    """Two of the queries, 48 a head, keys as wide, values of 16 a head; 8 heads."""
    model = llama(kv_heads=8, latent_attention=LatentAttention(24, 16, 32, 16, 16), ffn_hidden_size=8)
    width = 8 * (2 * 48 + 48 + 16)
    assert size(first(model, Plan()), "one layer's activations") == 2 * (2 * H + width)
    assert size(first(model, Plan(tensor_parallel=8)), "one layer's activations") == 2 * (2 * H + width // 8)


@pytest.mark.parametrize(("dtype", "each"), [("fp32", 4), ("bf16", 2), ("fp16", 2)])
def test_weights_are_there_once(dtype: str, each: int):
    assert size(first(llama(), Plan(), dtype), "weights") == each * count_parameters(llama())


def test_weights_are_counted_with_their_scales():
    outside = 2 * V * H + H
    inside = count_parameters(llama()) - outside

    def held(dtype: str) -> int:
        return size(first(llama(), Plan(), dtype), "weights") - 2 * outside

    assert held("mxfp8") == math.ceil(inside * (1 + 1 / 32))
    assert held("nvfp4") == math.ceil(inside * (1 / 2 + 1 / 16))
    assert held("int4_wo") == math.ceil(inside * (1 / 2 + 2 / 128))


def test_in_fp8_embedding_head_and_last_norm_stay_in_16_bits():
    outside = 2 * V * H + H
    assert size(first(llama(), Plan(), "fp8"), "weights") == count_parameters(llama()) + outside


def test_decode_computes_one_token_of_each_sequence_and_prefill_all():
    plan = Plan(micro_batch_size=3)
    assert size(first(llama(), plan), "logits") == 2 * 3 * V
    assert size(first(llama(), plan, is_decode=False), "logits") == 2 * 300 * V
    assert first(llama(), plan).name == "decode"
    assert first(llama(), plan, is_decode=False).name == "prefill"


def test_a_layer_holds_the_residual_its_norm_and_the_widest_of_what_follows():
    assert size(first(llama(), Plan()), "one layer's activations") == 2 * (2 * H + 3 * 192)
    assert size(first(gpt(), Plan()), "one layer's activations") == 2 * (2 * H + 2 * 4 * H)
    assert size(first(mixture(), Plan()), "one layer's activations") == 2 * (2 * H + 3 * 2 * 96)


def test_only_the_last_stage_has_logits():
    plan = Plan(pipeline_parallel=2)
    assert [term_of(peak, "logits") is not None for peak in peaks(llama(), plan)] == [False, True]
    cut = Plan(tensor_parallel=4, micro_batch_size=10)
    assert size(first(llama(), cut, "fp8"), "logits") == 2 * 10 * V // 4


def test_a_library_keeps_its_workspace():
    (stage,) = serving_stages(
        ServingSetting(llama(), inference_precision("bf16"), 100, True, workspace_bytes=32), Plan()
    )
    assert size(stage.peak, "workspaces of products") == 32


def test_what_cannot_be_served_is_refused():
    with pytest.raises(PlanError, match="pp=9"):
        first(llama(), Plan(pipeline_parallel=9))


def test_an_encoder_has_no_cache():
    assert term_of(first(llama(is_causal=False), Plan(), is_decode=False), "keys and values") is None


def read_in_steps(tokens: int, sequences: int, most: int, *, is_decode: bool) -> dict[str, int]:
    """Bytes by name of a program that reads so many tokens in a step."""
    setting = ServingSetting(llama(), inference_precision("bf16"), tokens, is_decode, step_tokens=most)
    (stage,) = serving_stages(setting, Plan(micro_batch_size=sequences))
    return {term.name: term.num_bytes for term in stage.peak.terms}


def test_prompts_are_read_in_steps_and_leave_logits_of_one_position():
    # 16 prompts of 100 tokens, 256 of which are read at once; each ends in one position.
    found = read_in_steps(100, 16, 256, is_decode=False)
    assert found["logits"] == 2 * 16 * llama().vocab_size
    whole = {term.name: term.num_bytes for term in first(llama(), Plan(), tokens=256, is_decode=False).terms}
    assert found["one layer's activations"] == whole["one layer's activations"]


@pytest.mark.parametrize(("tokens", "sequences", "most"), [(100, 16, 256), (100, 1, 256), (4, 512, 256)])
def test_a_serving_program_takes_the_same_for_prompts_and_answers(tokens, sequences, most):
    prompts, answers = (read_in_steps(tokens, sequences, most, is_decode=mode) for mode in (False, True))
    assert prompts == answers


def test_a_short_prompt_takes_no_more_than_its_tokens_and_many_answers_a_token_each():
    short = read_in_steps(100, 1, 256, is_decode=True)["one layer's activations"]
    many = read_in_steps(4, 512, 256, is_decode=True)["one layer's activations"]
    each = read_in_steps(1, 1, 256, is_decode=True)["one layer's activations"]
    assert (short, many) == (100 * each, 512 * each)
