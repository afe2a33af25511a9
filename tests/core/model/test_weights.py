"""Parameters counted by hand, and cut as Megatron-LM cuts them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.model.attention_weights import count_elements
from perfcast.core.model.heads import heads_of_rank
from perfcast.core.model.transformer import Experts, LatentAttention
from perfcast.core.model.weights import (
    balance_layers,
    count_parameters,
    layers_of_parts,
    layers_of_stages,
    pad_vocabulary,
    split_layers,
    stage_weights,
)
from perfcast.core.plan import Plan
from perfcast.errors import PlanError
from small_transformers import gpt, llama, mixture

H, V = 64, 512
GPT_LAYER = 12 * H * H + 13 * H  # four of attention, eight of the MLP; 9 h of biases and 4 h of norms
LLAMA_LAYER = (H * H + 2 * H * 32) + H * H + 3 * H * 192 + 2 * H


def held(model, plan: Plan, stage: int = 0) -> int:
    weights = stage_weights(model, plan, stage, vocab_size=model.vocab_size)
    return weights.num_dense_elements + weights.num_expert_elements


def test_a_gpt_has_12_h_h_and_13_h_a_layer():
    assert count_parameters(gpt()) == 8 * GPT_LAYER + V * H + 32 * H + 2 * H


def test_gpt3_has_175_billion():
    paper = gpt(heads=96, hidden=12288, layers=96, vocabulary=50257, max_positions=2048)
    count = 96 * (12 * 12288**2 + 13 * 12288) + 50257 * 12288 + 2048 * 12288 + 2 * 12288
    assert count_parameters(paper) == count == 174_604_259_328


def test_llama3_8b_has_8_030_261_248():
    model = llama(
        heads=32, kv_heads=8, num_layers=32, hidden_size=4096, head_size=128, ffn_hidden_size=14336,
        vocab_size=128256,
    )  # fmt: skip
    assert count_parameters(model) == 8_030_261_248


def test_grouped_keys_gates_and_a_head_of_its_own_are_counted():
    assert count_parameters(llama()) == 8 * LLAMA_LAYER + 2 * V * H + H


def test_experts_replace_the_mlp_and_add_a_router():
    experts = 8 * 3 * H * 96 + 8 * H
    assert count_parameters(mixture()) == 8 * (LLAMA_LAYER - 3 * H * 192 + experts) + 2 * V * H + H


def test_leading_dense_layers_and_shared_experts():
    some = Experts(8, 2, 96, shared_ffn_hidden_size=48, num_dense_layers=3, has_shared_gate=True)
    with_experts = LLAMA_LAYER - 3 * H * 192 + 8 * 3 * H * 96 + 8 * H + 3 * H * 48 + H
    assert count_parameters(llama(experts=some)) == 3 * LLAMA_LAYER + 5 * with_experts + 2 * V * H + H


def test_latent_attention_has_five_matrices_and_two_norms():
    latent = LatentAttention(query_rank=24, kv_rank=16, nope_head_size=8, rope_head_size=4, value_head_size=6)
    queries = 24 * H + 24 + 8 * 12 * 24
    keys = (16 + 4) * H + 16 + 8 * (8 + 6) * 16
    attention = queries + keys + H * 8 * 6
    assert count_parameters(llama(latent_attention=latent)) - count_parameters(llama()) == 8 * (
        attention - (2 * H * H + 2 * H * 32)
    )


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"has_head_norms": True}, 8 * 2 * 8),
        ({"norm_placement": "both"}, 8 * 2 * H),
        ({"norm_placement": "shared"}, -8 * H),
        ({"has_final_norm": False}, -H),
        ({"has_mlp_bias": True}, 8 * (2 * 192 + H)),
        ({"has_qkv_bias": True}, 8 * (H + 2 * 32)),
        ({"has_head_bias": True}, V),
        ({"has_head_transform": True}, H * H + H + H),
        ({"num_token_types": 2}, 2 * H),
        ({"has_embedding_norm": True}, H),
        ({"embedding_size": 16}, 2 * V * (16 - H) + 2 * 16 * H),
        ({"ties_embeddings": True}, -V * H),
    ],
)
def test_each_switch_adds_its_own_weights(changes: dict[str, object], more: int):
    assert count_parameters(llama(**changes)) - count_parameters(llama()) == more


def test_tensor_parallelism_cuts_matrices_and_copies_norms():
    assert (
        held(llama(), Plan(tensor_parallel=4))
        == 8 * ((LLAMA_LAYER - 2 * H) // 4 + 2 * H) + 2 * V * H // 4 + H
    )


def test_fewer_kv_heads_than_ranks_are_copied():
    assert [heads_of_rank(llama(), tensor_parallel).keys for tensor_parallel in (1, 2, 4, 8)] == [4, 2, 1, 1]
    keys_of_a_head = 2 * 8 * H
    whole, cut = count_parameters(llama()), held(llama(), Plan(tensor_parallel=8))
    norms = 17 * H
    assert 8 * (cut - norms) - (whole - norms) == 8 * (8 - 4) * keys_of_a_head


def test_a_tied_embedding_is_copied_to_the_last_of_several_stages():
    first, last = (held(gpt(), Plan(pipeline_parallel=2), stage) for stage in (0, 1))
    assert first + last == count_parameters(gpt()) + V * H


@given(st.integers(1, 8))
def test_stages_together_hold_an_untied_model_once(num_stages: int):
    plan = Plan(pipeline_parallel=num_stages)
    assert sum(held(llama(), plan, stage) for stage in range(num_stages)) == count_parameters(llama())


def test_dense_layers_come_first_in_the_pipeline():
    some = Experts(8, 2, 96, num_dense_layers=3)
    plan = Plan(pipeline_parallel=4)
    stages = [stage_weights(llama(experts=some), plan, stage, vocab_size=V) for stage in range(4)]
    assert [(s.num_dense_layers, s.num_expert_layers) for s in stages] == [(2, 0), (1, 1), (0, 2), (0, 2)]


def test_experts_are_spread_over_ranks_and_cut_by_a_degree_of_their_own():
    plan = Plan(data_parallel=4, tensor_parallel=2, expert_parallel=4, expert_tensor_parallel=2)
    weights = stage_weights(mixture(), plan, 0, vocab_size=V)
    assert weights.num_expert_elements == 8 * (8 // 4) * 3 * H * 96 // 2
    spread = stage_weights(mixture(), replace(plan, expert_tensor_parallel=None), 0, vocab_size=V)
    assert spread.num_expert_elements == 2 * weights.num_expert_elements


def test_experts_count_apart_from_the_rest_of_their_layer():
    weights = stage_weights(mixture(), Plan(), 0, vocab_size=V)
    assert count_elements(weights.expert_layer, is_expert=True) == 8 * 3 * H * 96


@pytest.mark.parametrize(
    ("vocab_size", "degree", "rows"), [(50257, 1, 50304), (50257, 8, 51200), (1024, 8, 1024)]
)
def test_the_vocabulary_is_padded_to_a_multiple_of_128_times_the_ranks(
    vocab_size: int, degree: int, rows: int
):
    assert pad_vocabulary(vocab_size, degree, 128) == rows


def test_the_first_stages_take_what_is_left_over():
    assert split_layers(11, 4) == (3, 3, 3, 2)
    with pytest.raises(PlanError, match=r"pp=5 .* the model has 4"):
        split_layers(4, 5)


def test_embedding_and_head_count_as_layers_where_only_that_makes_stages_equal():
    """Llama 3.1 405B: 126 layers on 16 stages, in chunks of one on 128."""
    assert split_layers(126, 16) == (7, *(8,) * 14, 7)
    assert split_layers(126, 6) == (21,) * 6
    whole = llama(num_layers=126)
    chunks = Plan(pipeline_parallel=16, virtual_stages_per_rank=8, schedule="interleaved")
    assert layers_of_parts(whole, chunks) == (0, *(1,) * 126, 0)
    assert layers_of_stages(whole, chunks) == (7, *(8,) * 14, 7)
    with pytest.raises(PlanError, match="at least as many layers"):
        split_layers(6, 8)


@given(st.integers(1, 8), st.integers(1, 40))
def test_balancing_deals_out_every_layer_and_gives_the_stage_with_the_head_no_more(stages: int, layers: int):
    counts = balance_layers(llama(num_layers=layers), stages)
    assert sum(counts) == layers
    assert counts[-1] <= max(counts)


@pytest.mark.parametrize(
    ("model", "plan", "equation"),
    [
        (llama(), Plan(tensor_parallel=3), "tp=3 does not divide 8 attention heads"),
        (
            llama(),
            Plan(context_parallel=3, context_communication="ulysses"),
            "cp=3 does not divide the 8 attention heads of a rank",
        ),
        (
            llama(),
            Plan(tensor_parallel=4, context_parallel=4, context_communication="ulysses"),
            "cp=4 does not divide the 2 attention heads of a rank",
        ),
        (llama(), Plan(context_parallel=3, context_communication="ring"), None),
        (llama(), Plan(context_parallel=16, context_communication="all_gather"), None),
        (llama(ffn_hidden_size=190), Plan(tensor_parallel=4), "tp=4 does not divide an MLP of 190"),
        (llama(heads=12, kv_heads=6), Plan(tensor_parallel=4), "tp=4 neither divides 6 kv heads nor is"),
        (llama(), Plan(data_parallel=2, expert_parallel=2), "ep=2: the model has no experts"),
        (mixture(), Plan(data_parallel=3, expert_parallel=3), "ep=3 does not divide 8 experts"),
        (mixture(), Plan(tensor_parallel=8, expert_tensor_parallel=8), None),
        (
            llama(experts=Experts(8, 2, 90)),
            Plan(tensor_parallel=4),
            "etp=4 does not divide experts of 90",
        ),
        (
            llama(experts=Experts(8, 2, 96, shared_ffn_hidden_size=6)),
            Plan(tensor_parallel=4, expert_tensor_parallel=1),
            "tp=4 does not divide shared experts of 6",
        ),
        (
            llama(),
            Plan(pipeline_parallel=4, virtual_stages_per_rank=3, schedule="interleaved"),
            "pp=4 · vp=3 = 12 chunks need at least as many layers; the model has 8",
        ),
    ],
)
def test_a_cut_that_does_not_divide_is_refused_with_its_numbers(model, plan: Plan, equation: str | None):
    if equation is None:
        assert held(model, plan) > 0
        return
    with pytest.raises(PlanError, match=equation):
        held(model, plan)


def test_stated_stages_must_add_up_to_the_model():
    plan = Plan(pipeline_parallel=2, stage_layers=(3, 4))
    with pytest.raises(PlanError, match=r"3 \+ 4 = 7 layers; the model has 8"):
        layers_of_parts(gpt(num_layers=8), plan)
    assert layers_of_parts(gpt(num_layers=7), plan) == (3, 4)


def test_chunks_of_an_uneven_stage_share_its_layers():
    plan = Plan(
        pipeline_parallel=2, virtual_stages_per_rank=2, schedule="interleaved", stage_layers=(4, 6),
        num_micro_batches=2,
    )  # fmt: skip
    assert layers_of_parts(gpt(num_layers=10), plan) == (2, 3, 2, 3)
    assert layers_of_stages(gpt(num_layers=10), plan) == (4, 6)
