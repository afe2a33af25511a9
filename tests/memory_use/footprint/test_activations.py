"""What a layer keeps: the equations of Korthikanti et al. (MLSys 2023), and other layers by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.model.transformer import LatentAttention, Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint.activations import lay_out, layer_activations, layer_bytes
from perfcast.memory_use.footprint.selective import saved_tensors
from small_transformers import gpt, llama, memory_profile, mixture

PAPER = Training(framework="megatron_local", attention="math")
FLASH = replace(PAPER, attention="flash")
S, H = 128, 64


def kept(
    model: Transformer, plan: Plan, training: Training = FLASH, sequence_length: int = S, **changes: object
) -> dict[str, int]:
    layout = lay_out(plan, training, sequence_length)
    profile = load_training_profile(training.framework)
    own = replace(profile, memory=replace(profile.memory_of(training.dtype), **changes), memory_in_fp16=None)
    saved = saved_tensors(model, plan, training, own, layout, has_experts=model.experts is not None)
    assert len({item.name for item in saved}) == len(saved)
    return {item.name: item.num_bytes for item in saved}


def total(
    model: Transformer, plan: Plan, training: Training = PAPER, sequence_length: int = S, **changes: object
) -> int:
    return sum(kept(model, plan, training, sequence_length, **changes).values())


@pytest.mark.parametrize(("micro_batch", "heads", "hidden"), [(1, 4, 64), (2, 4, 64), (4, 16, 256)])
def test_equation_1_a_layer_keeps_sbh_34_and_5_as_over_h(micro_batch: int, heads: int, hidden: int):
    each = 34 + 5 * heads * S / hidden
    assert total(gpt(heads, hidden), Plan(micro_batch_size=micro_batch)) == S * micro_batch * hidden * each


@pytest.mark.parametrize("degree", [2, 4])
def test_equation_2_tensor_parallelism_leaves_10_of_34_whole(degree: int):
    each = 10 + 24 / degree + 5 * 4 * S / (H * degree)
    assert total(gpt(), Plan(tensor_parallel=degree)) == S * H * each


@pytest.mark.parametrize("degree", [2, 4])
def test_equation_4_sequence_parallelism_cuts_everything(degree: int):
    plan = Plan(tensor_parallel=degree, sequence_parallel=True)
    assert total(gpt(), plan) == S * H / degree * (34 + 5 * 4 * S / H)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_equation_6_selective_recomputation_keeps_34(degree: int):
    plan = Plan(tensor_parallel=degree, sequence_parallel=True, recompute="selective")
    assert total(gpt(), plan) == S * H * 34 // degree


@pytest.mark.parametrize(
    ("heads", "hidden", "core", "saved_share"), [(96, 12288, 80, 0.70), (128, 20480, 64, 0.65)]
)
def test_selective_recomputation_saves_70_percent_of_gpt3_and_65_of_mt_nlg(
    heads: int, hidden: int, core: int, saved_share: float
):
    model = gpt(heads, hidden)
    plan = Plan(tensor_parallel=8, sequence_parallel=True)
    everything = total(model, plan, sequence_length=2048)
    selective = total(model, replace(plan, recompute="selective"), sequence_length=2048)
    assert everything == 2048 * hidden * (34 + core) // 8
    assert 1 - selective / everything == pytest.approx(saved_share, abs=0.005)


def test_dropping_hidden_rows_alone_keeps_no_dropped_scores():
    model = gpt(has_attention_dropout=False)
    names = {name for name in kept(model, Plan(), PAPER) if "scores" in name}
    assert names == {"softmax of the scores"}
    assert "dropout mask behind attention" in kept(model, Plan(), PAPER)


def test_relu_keeps_its_output_alone():
    gone = total(gpt(), Plan()) - total(gpt(activation="relu"), Plan())
    assert gone == kept(gpt(), Plan())["input of the activation"] == 2 * S * 4 * H


def test_the_matrix_of_scores_is_kept_three_times_with_dropout_and_once_without():
    """Softmax and dropped scores of two bytes, a mask of one: 5 · a · s² · b; 2 without dropout."""
    names = ("softmax of the scores", "dropout mask of the scores", "scores after dropout")
    assert [kept(gpt(), Plan(), PAPER)[name] for name in names] == [2 * 4 * S**2, 4 * S**2, 2 * 4 * S**2]
    without = kept(gpt(has_dropout=False, has_attention_dropout=False), Plan(), PAPER)
    assert [name in without for name in names] == [True, False, False]


def test_flash_attention_keeps_four_bytes_a_row_in_place_of_the_scores():
    saved = kept(gpt(), Plan())
    assert saved["row statistics of attention"] == 4 * S * 4
    assert sum(saved.values()) == S * H * 34 + 4 * S * 4


def test_a_gated_mlp_keeps_both_halves_and_their_product():
    saved = kept(llama(), Plan())
    assert saved["input of the activation"] == 2 * S * 2 * 192
    assert saved["input of MLP down"] == 2 * S * 192
    kept_too = kept(llama(), Plan(), keeps_gate=True)
    assert kept_too["the gate behind its activation"] == 2 * S * 192


def test_grouped_keys_and_values_are_narrower_than_queries():
    saved = kept(llama(), Plan(tensor_parallel=2))
    assert [saved[name] for name in ("queries", "keys", "values")] == [2 * S * 32, 2 * S * 16, 2 * S * 16]


def test_latent_attention_keeps_what_it_compressed():
    latent = LatentAttention(query_rank=24, kv_rank=16, nope_head_size=8, rope_head_size=4, value_head_size=6)
    saved = kept(llama(latent_attention=latent), Plan())
    assert saved["compressed queries before and after their norm"] == 2 * S * 2 * 24
    assert saved["compressed keys and values before and after their norm"] == 2 * S * (2 * 16 + 4)
    assert [saved[name] for name in ("queries", "keys", "values")] == [2 * S * 96, 2 * S * 96, 2 * S * 48]
    assert saved["output of attention"] == 2 * S * 48


def test_a_token_is_kept_once_for_each_expert_that_it_visits():
    saved = kept(mixture(), Plan())
    assert saved["tokens sent to experts"] == 2 * 2 * S * H
    assert saved["input of the experts' activation"] == 2 * 2 * S * 2 * 96
    assert saved["input of experts down"] == 2 * 2 * S * 96
    assert saved["scores of the router"] == 3 * 4 * S * 8


def test_spreading_experts_leaves_as_many_tokens_on_a_rank():
    assert kept(mixture(), Plan(data_parallel=8, expert_parallel=8)) == kept(mixture(), Plan(data_parallel=8))


def test_experts_cut_by_tensor_parallelism_gather_the_tokens_of_their_group():
    cut = Plan(tensor_parallel=2, sequence_parallel=True)
    whole = replace(cut, expert_tensor_parallel=1)
    assert (
        kept(mixture(), cut)["tokens sent to experts"] == 2 * kept(mixture(), whole)["tokens sent to experts"]
    )
    assert kept(mixture(), cut)["input of experts down"] == kept(mixture(), whole)["input of experts down"]


def test_fp8_keeps_inputs_of_products_in_one_byte():
    half, eight = (kept(gpt(), Plan(), replace(FLASH, dtype=dtype)) for dtype in ("bf16", "fp8"))
    for name in ("input of attention", "input of the MLP", "input of MLP down"):
        assert 2 * eight[name] == half[name]
    assert eight["output of attention in fp8"] == S * H
    assert eight["queries"] == half["queries"]


def test_context_parallelism_cuts_tokens_and_scores_and_keeps_one_exchanged_output():
    model = gpt(has_dropout=False)
    whole, half = (kept(model, Plan(context_parallel=degree), PAPER) for degree in (1, 2))
    extra = half.pop("output of attention before its all-to-all")
    assert half == {name: size // 2 for name, size in whole.items()}
    assert extra == half["output of attention"]


def test_what_was_found_by_measuring_is_cut_by_tensor_parallelism():
    name = "further activations, found by measuring"
    assert kept(gpt(), Plan(tensor_parallel=2), further_width=3.0)[name] == 2 * S * 3 * H // 2
    assert name not in kept(gpt(), Plan())


@given(
    st.integers(1, 8),
    st.integers(1, 64),
    st.sampled_from(["none", "selective"]),
    st.sampled_from([gpt, mixture]),
)
def test_activations_grow_with_tokens_and_shrink_with_cuts(
    micro_batch: int, sequence_length: int, recompute: str, build
):
    plan = Plan(micro_batch_size=micro_batch, recompute=recompute)
    model = build()
    here = total(model, plan, sequence_length=16 * sequence_length)
    more = total(model, replace(plan, micro_batch_size=micro_batch + 1), sequence_length=16 * sequence_length)
    cut = total(
        model, replace(plan, tensor_parallel=4, sequence_parallel=True), sequence_length=16 * sequence_length
    )
    assert cut <= here < more


def test_layer_bytes_is_the_sum():
    layout = lay_out(Plan(), PAPER, S)
    saved = layer_activations(gpt(), Plan(), PAPER, memory_profile(), layout, has_experts=False)
    assert layer_bytes(saved) == total(gpt(), Plan())


def test_the_busiest_rank_keeps_as_many_more_rows_as_its_time_counts():
    even, skewed = kept(mixture(), Plan()), kept(mixture(), Plan(expert_imbalance=1.5))
    assert 2 * skewed["tokens sent to experts"] == 3 * even["tokens sent to experts"]
    assert skewed["input of router and experts"] == even["input of router and experts"]
