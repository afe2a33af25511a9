from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfcast.core.model.attention_weights import Weight
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint.layer_figures import LayerFigures
from perfcast.memory_use.footprint.peak_candidates import (
    embedding_backward_term,
    head_backward_terms,
    head_input_term,
    layer_backward_terms,
    loss_terms,
    peak_candidates,
    recomputed_terms,
    waiting_terms,
)
from perfcast.memory_use.footprint.ranks import Ranks
from perfcast.memory_use.footprint.setting import Setting
from small_transformers import (
    figures_of,
    gpt,
    llama,
    memory_profile,
    mixture,
    one,
    one_rank,
    rank_of,
    sizes,
    training_profile,
)

S, H = 128, 64
BF16 = Training()
INPUT = 2 * S * H
ALL = (3, 1)
NONE = (0, 0)


def stage(plan: Plan, in_flight: float = 2.0, again: tuple[int, int] | None = None) -> Ranks:
    """Three dense layers and one with experts."""
    again = again or (ALL if plan.recompute == "full" else NONE)
    experts = (Weight("e", 8, 8, is_expert=True),)
    return one_rank(plan, Weight("w", 8, 8), experts=experts, num_dense=3, again=again, in_flight=in_flight)


def layer(plan: Plan, training: Training = BF16) -> LayerFigures:
    """A dense layer saves 30,000 bytes, one with experts 50,000."""
    found = figures_of(gpt(), plan, training)
    return replace(found, saved_dense=0 * found.rows + 30_000, saved_expert=0 * found.rows + 50_000)


def waiting(plan: Plan, in_flight: float = 2.0, again: tuple[int, int] | None = None) -> int:
    return sum(sizes(waiting_terms(stage(plan, in_flight, again), layer(plan))))


def test_all_layers_of_all_micro_batches_in_flight_wait():
    assert waiting(Plan()) == 2 * (3 * 30_000 + 50_000)


def test_full_recomputation_keeps_inputs_and_makes_the_largest_layer_again():
    full = Plan(recompute="full")
    assert waiting(full) == 2 * 4 * INPUT
    assert recomputed(full) == {"recomputed layer": 50_000 - INPUT}
    assert recomputed(Plan()) == {}


def test_selective_recomputation_makes_the_scores_of_one_layer_again():
    """5 · a · s² with dropout, where the matrix of scores is kept."""
    math = replace(BF16, attention="math")
    assert recomputed(Plan(recompute="selective"), math) == {"recomputed attention": 5 * 4 * S**2}


def recomputed(plan: Plan, training: Training = BF16, again: tuple[int, int] | None = None) -> dict[str, int]:
    terms = recomputed_terms(
        stage(plan, again=again), layer(plan, training), load_training_profile("megatron")
    )
    return {term.name: one(term).num_bytes for term in terms}


def test_layers_behind_those_computed_again_keep_all_and_are_gone_by_then():
    some = Plan(recompute="full", recompute_layers=2)
    again = (2, 0)
    assert waiting(some, again=again) == 2 * (2 * INPUT + 30_000 + 50_000)
    # 80,000 bytes are free when 30,000 are made again
    assert recomputed(some, again=again) == recomputed(some, again=(3, 0)) == {"recomputed layer": 0}
    made = recomputed(Plan(recompute="full"), again=(2, 1))
    assert made == {"recomputed layer": 50_000 - INPUT - 30_000}


def test_offloaded_activations_leave_one_layer():
    assert waiting(Plan(offload="activations")) == 50_000


def test_a_stage_without_layers_keeps_none():
    for plan in (Plan(), Plan(recompute="full"), Plan(offload="activations")):
        assert sizes(waiting_terms(one_rank(plan), layer(plan))) == []


def test_the_loss_reads_logits_in_two_bytes_and_makes_four_more_unless_it_is_fused():
    figures = replace(layer(Plan()), logits=np.array([1000.0]))
    apart = loss_terms(figures, BF16, memory_profile())
    fused = loss_terms(figures, replace(BF16, fuses_cross_entropy=True), memory_profile())
    assert [sizes(apart), sizes(fused)] == [[2000, 4000], [2000]]


def test_the_heads_input_is_kept_before_and_behind_its_norm_whole_for_the_product():
    plan = Plan(tensor_parallel=4, sequence_parallel=True)
    assert one(head_input_term(figures_of(gpt(), plan))).num_bytes == INPUT // 4 + INPUT


@pytest.mark.parametrize("model", [gpt(), llama()])
def test_the_gradient_of_the_head_is_one_table_tied_or_not(model):
    terms = head_backward_terms(rank_of(model, Plan()), figures_of(model, Plan()), BF16, memory_profile())
    assert {term.name: one(term).num_bytes for term in terms} == {
        "gradient of the logits": 2 * S * 512,
        "gradient of the head": 2 * 512 * H,
        "gradient of the head's input": INPUT,
    }


def test_the_embeddings_gradient_is_dense_and_without_positions():
    assert one(embedding_backward_term(rank_of(gpt(), Plan()), memory_profile())).num_bytes == 2 * 512 * H


def inside(model: Transformer, plan: Plan, training: Training = BF16) -> tuple[str, int]:
    terms = layer_backward_terms(rank_of(model, plan), figures_of(model, plan, training))
    ((name, size),) = [(term.name, one(term).num_bytes) for term in terms if term.num_bytes[0]]
    return name, size


def test_the_backward_of_an_mlp_holds_gradients_of_both_sides_of_the_activation_and_of_the_residual():
    assert inside(gpt(), Plan()) == ("gradients inside the MLP", 2 * S * (2 * 4 * H + H))


def test_attention_in_a_narrow_layer_holds_gradients_of_its_output_and_three_inputs():
    narrow = llama(ffn_hidden_size=8)
    assert inside(narrow, Plan()) == ("gradients inside attention", 2 * S * (2 * 64 + 32 + 32 + H))


def test_without_flash_two_gradients_of_the_scores_are_there():
    name, size = inside(gpt(), Plan(), replace(BF16, attention="math"))
    assert (name, size) == ("gradients inside attention", 2 * S * (4 * H + H) + 2 * 2 * 4 * S**2)


def test_sequence_parallelism_gathers_one_whole_input():
    cut = Plan(tensor_parallel=4, sequence_parallel=True)
    assert inside(gpt(), cut)[1] == 2 * S * (2 * 4 * H // 4 + H // 4 + H)


@pytest.mark.parametrize(
    "plan", [Plan(), Plan(tensor_parallel=2), Plan(tensor_parallel=2, sequence_parallel=True)]
)
def test_gradients_inside_experts_are_of_the_rows_that_visit_them(plan: Plan):
    """Two experts a token; cut by tensor parallelism, gathered again where it cuts the experts too."""
    residual = 2 * S * H // (plan.tensor_parallel if plan.sequence_parallel else 1)
    width = 96 // plan.tensor_parallel
    assert inside(mixture(), plan)[1] == 2 * 2 * S * (3 * width + H) + residual


def test_of_dense_layers_and_layers_with_experts_the_wider_backward_counts():
    """The first layer is dense, three times 512 wide; two experts a token of 96 are less."""
    both = llama(ffn_hidden_size=512, experts=Experts(8, 2, 96, num_dense_layers=1))
    assert inside(both, Plan())[1] == 2 * S * (3 * 512 + H)
    assert inside(replace(both, ffn_hidden_size=64), Plan())[1] == 2 * 2 * S * (3 * 96 + H) + 2 * S * H


def test_candidates_exist_where_there_is_something_to_run_and_leave_out_what_is_empty():
    setting = Setting(gpt(), BF16, training_profile(), S)
    table_alone = one_rank(Plan(), embedding=(Weight("embedding", 512, 64),))
    found = peak_candidates(setting, table_alone, layer(Plan()))
    there = [candidate.row(0) for candidate in found.columns if candidate.exists[0]]
    assert [candidate.name for candidate in there] == ["optimizer", "embedding backward"]
    assert all(term.num_bytes for candidate in there for term in candidate.terms)
    assert [int(candidate.num_bytes[0]) for candidate in found.columns] == [
        there[0].num_bytes, 0, 0, 0, there[0].num_bytes + 2 * 512 * 64
    ]  # fmt: skip
