"""Memory of inference by hand."""

from __future__ import annotations

import pytest

from perfcast.core.forecast.footprint import Moment
from perfcast.core.plan import Plan
from perfcast.core.transformer import LatentAttention
from perfcast.core.weights import count_parameters
from perfcast.errors import PlanError, UnknownNameError
from perfcast.memory.footprint.serving import cache_term, logit_term, serving_stage
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


def moment(model, plan: Plan, dtype: str = "bf16", *, is_decode: bool = True, tokens: int = 100) -> Moment:
    (only,) = serving_stage(model, plan, dtype, tokens, 0, is_decode=is_decode).moments
    return only


def size(found: Moment, name: str) -> int:
    term = term_of(found, name)
    return term.num_bytes if term else 0


def test_llama3_70b_keeps_320_kibibytes_a_token():
    """2 · 80 layers · 8 heads · 128 · 2 bytes."""
    assert cache_term(LLAMA_70B, Plan(), "bf16", 1, 80).num_bytes == 320 * KIB
    assert cache_term(LLAMA_70B, Plan(tensor_parallel=8), "bf16", 1, 80).num_bytes == 40 * KIB
    assert cache_term(LLAMA_70B, Plan(), "fp8", 1, 80).num_bytes == 160 * KIB


def test_a_head_of_keys_is_never_cut_in_two():
    eight, sixteen = (cache_term(LLAMA_70B, Plan(tensor_parallel=t), "bf16", 1, 80) for t in (8, 16))
    assert eight.num_bytes == sixteen.num_bytes


def test_deepseek_v2_keeps_576_elements_a_token_and_layer_whatever_the_tensor_parallelism():
    latent = LatentAttention(1536, 512, 128, 64, 128)
    model = llama(heads=128, kv_heads=128, latent_attention=latent)
    for degree in (1, 8):
        assert cache_term(model, Plan(tensor_parallel=degree), "bf16", 1, 60).num_bytes == 60 * 576 * 2


def test_context_parallelism_and_stages_share_the_cache():
    plan = Plan(context_parallel=4, pipeline_parallel=2, micro_batch_size=3)
    assert size(moment(llama(), plan), "keys and values") == 2 * 4 * 3 * 25 * 2 * 32


@pytest.mark.parametrize(("micro_batches", "held"), [(1, 1), (3, 3), (4, 4), (9, 4)])
def test_a_pipeline_holds_the_caches_of_as_many_micro_batches_as_it_has_stages(micro_batches: int, held: int):
    plan = Plan(pipeline_parallel=4, micro_batch_size=3, num_micro_batches=micro_batches)
    assert size(moment(llama(), plan), "keys and values") == 2 * 2 * held * 3 * 100 * 2 * 32


@pytest.mark.parametrize(("tokens", "rows"), [(20, 8 * 20), (100, 2 * 100 + 6 * 32)])
def test_layers_with_a_window_keep_no_more_than_it(tokens: int, rows: int):
    model = llama(sliding_window=32, num_window_layers=6)
    assert cache_term(model, Plan(), "bf16", tokens, 8).num_bytes == 2 * rows * 2 * 32


def test_latent_attention_works_with_its_own_widths():
    """Two of the queries, 48 a head, keys as wide, values of 16 a head; 8 heads."""
    model = llama(kv_heads=8, latent_attention=LatentAttention(24, 16, 32, 16, 16), ffn_hidden_size=8)
    width = 8 * (2 * 48 + 48 + 16)
    assert size(moment(model, Plan()), "one layer's activations") == 2 * (2 * H + width)
    assert size(moment(model, Plan(tensor_parallel=8)), "one layer's activations") == 2 * (2 * H + width // 8)


@pytest.mark.parametrize(("dtype", "each"), [("fp32", 4), ("bf16", 2), ("fp16", 2)])
def test_weights_are_there_once(dtype: str, each: int):
    assert size(moment(llama(), Plan(), dtype), "weights") == each * count_parameters(llama())


def test_in_fp8_embedding_head_and_last_norm_stay_in_16_bits():
    outside = 2 * V * H + H
    assert size(moment(llama(), Plan(), "fp8"), "weights") == count_parameters(llama()) + outside


def test_decode_computes_one_token_of_each_sequence_and_prefill_all():
    plan = Plan(micro_batch_size=3)
    assert size(moment(llama(), plan), "logits") == 2 * 3 * V
    assert size(moment(llama(), plan, is_decode=False), "logits") == 2 * 300 * V
    assert moment(llama(), plan).name == "decode"
    assert moment(llama(), plan, is_decode=False).name == "prefill"


def test_a_layer_holds_the_residual_its_norm_and_the_widest_of_what_follows():
    assert size(moment(llama(), Plan()), "one layer's activations") == 2 * (2 * H + 3 * 192)
    assert size(moment(gpt(), Plan()), "one layer's activations") == 2 * (2 * H + 2 * 4 * H)
    assert size(moment(mixture(), Plan()), "one layer's activations") == 2 * (2 * H + 3 * 2 * 96)


def test_only_the_last_stage_has_logits():
    plan = Plan(pipeline_parallel=2)
    stages = [serving_stage(llama(), plan, "bf16", 100, stage, is_decode=True) for stage in (0, 1)]
    assert [term_of(stage.peak, "logits") is not None for stage in stages] == [False, True]
    assert logit_term(llama(), Plan(tensor_parallel=4), "fp8", 10).num_bytes == 2 * 10 * V // 4


def test_a_library_keeps_its_workspace():
    stage = serving_stage(llama(), Plan(), "bf16", 100, 0, is_decode=True, workspace_bytes=32)
    assert size(stage.peak, "workspaces of products") == 32


def test_what_cannot_be_served_is_refused():
    with pytest.raises(UnknownNameError, match="int8"):
        moment(llama(), Plan(), "int8")
    with pytest.raises(PlanError, match="pp=9"):
        moment(llama(), Plan(pipeline_parallel=9))
