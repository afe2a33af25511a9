from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.transformer import Experts
from perfcast.core.weights import Weight, stage_weights
from perfcast.memory.footprint.activations import Saved, lay_out
from perfcast.memory.footprint.moments import (
    activation_terms,
    embedding_backward_term,
    head_activation_term,
    head_backward_terms,
    issued_ahead_term,
    layer_backward_terms,
    loss_terms,
    moment,
    recomputed_term,
)
from perfcast.memory.footprint.recomputed import Recomputed
from small_transformers import gpt, habits, llama, mixture, one_layer

S, H = 128, 64
BF16 = Training()
LAYOUT = lay_out(Plan(), BF16, S)
STAGE = replace(
    one_layer(Weight("w", 8, 8), experts=(Weight("e", 8, 8, is_expert=True),)), num_dense_layers=3
)
LAYERS = ((Saved("a", 20_000), Saved("b", 10_000)), (Saved("c", 50_000),))
INPUT = 2 * S * H


ALL = Recomputed(3, 1)


def waiting(plan: Plan, in_flight: float = 2.0, again: Recomputed | None = None) -> int:
    again = again or (ALL if plan.recompute == "full" else Recomputed())
    terms = activation_terms(plan, STAGE, LAYERS, LAYOUT, H, in_flight, again)
    return sum(term.num_bytes for term in terms)


def test_all_layers_of_all_micro_batches_in_flight_wait():
    assert waiting(Plan()) == 2 * (3 * 30_000 + 50_000)


def test_full_recomputation_keeps_inputs_and_makes_the_largest_layer_again():
    full = Plan(recompute="full")
    assert waiting(full) == 2 * 4 * INPUT
    assert recomputed(full) == ("recomputed layer", 50_000 - INPUT)
    assert recomputed(Plan())[1] == 0


def test_selective_recomputation_makes_the_scores_of_one_layer_again():
    """5 · a · s² with dropout, where the matrix of scores is kept."""
    math = replace(BF16, attention="math")
    assert recomputed(Plan(recompute="selective"), math) == ("recomputed attention", 5 * 4 * S**2)


def recomputed(plan: Plan, training: Training = BF16, again: Recomputed | None = None) -> tuple[str, int]:
    again = again or (ALL if plan.recompute == "full" else Recomputed())
    term = recomputed_term(gpt(), plan, training, STAGE, LAYERS, LAYOUT, again)
    return term.name, term.num_bytes


def test_layers_behind_those_computed_again_keep_all_and_are_gone_by_then():
    some = Plan(recompute="full", recompute_layers=2)
    again = Recomputed(2, 0)
    assert waiting(some, again=again) == 2 * (2 * INPUT + 30_000 + 50_000)
    assert recomputed(some, again=again)[1] == 0  # 80,000 bytes are free when 30,000 are made again
    assert recomputed(some, again=Recomputed(3, 0))[1] == 0
    assert recomputed(Plan(recompute="full"), again=Recomputed(2, 1))[1] == 50_000 - INPUT - 30_000


def test_offloaded_activations_leave_one_layer():
    assert waiting(Plan(offload="activations")) == 50_000


def test_a_stage_without_layers_keeps_none():
    empty = replace(STAGE, num_dense_layers=0, num_expert_layers=0)
    for plan in (Plan(), Plan(recompute="full"), Plan(offload="activations")):
        assert activation_terms(plan, empty, LAYERS, LAYOUT, H, 1.0, Recomputed()) == ()


def test_the_loss_reads_logits_in_two_bytes_and_makes_four_more_unless_it_is_fused():
    apart = loss_terms(1000, BF16, habits(), LAYOUT)
    fused = loss_terms(1000, replace(BF16, fuses_cross_entropy=True), habits(), LAYOUT)
    assert [term.num_bytes for term in apart] == [2000, 4000]
    assert [term.num_bytes for term in fused] == [2000]


def test_the_heads_input_is_kept_before_and_behind_its_norm_whole_for_the_product():
    plan = Plan(tensor_parallel=4, sequence_parallel=True)
    assert head_activation_term(gpt(), lay_out(plan, BF16, S)).num_bytes == INPUT // 4 + INPUT


@pytest.mark.parametrize("model", [gpt(), llama()])
def test_the_gradient_of_the_head_is_one_table_tied_or_not(model):
    weights = stage_weights(model, Plan(), 0, vocab_size=512)
    sizes = {t.name: t.num_bytes for t in head_backward_terms(weights, S * 512, model, LAYOUT, habits())}
    assert sizes == {
        "gradient of the logits": 2 * S * 512,
        "gradient of the head": 2 * 512 * H,
        "gradient of the head's input": INPUT,
    }


def test_the_embeddings_gradient_is_dense_and_without_positions():
    weights = stage_weights(gpt(), Plan(), 0, vocab_size=512)
    assert embedding_backward_term(weights, habits()).num_bytes == 2 * 512 * H


def inside(model, plan: Plan, training: Training = BF16) -> tuple[str, int]:
    layout = lay_out(plan, training, S)
    weights = stage_weights(model, plan, 0, vocab_size=512)
    (term,) = layer_backward_terms(model, plan, training, layout, weights)
    return term.name, term.num_bytes


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


def test_collectives_issued_ahead_wait_only_with_sequence_parallelism_and_without_a_pipeline():
    own = habits(tensors_issued_ahead=33)
    plans = (
        Plan(tensor_parallel=2, sequence_parallel=True),
        Plan(tensor_parallel=2),
        Plan(tensor_parallel=2, sequence_parallel=True, pipeline_parallel=2),
        Plan(),
    )
    assert [issued_ahead_term(gpt(), plan, lay_out(plan, BF16, S), own).num_bytes for plan in plans] == [
        33 * INPUT,
        0,
        0,
        0,
    ]


def test_a_moment_drops_what_is_empty():
    full, empty = loss_terms(10, BF16, habits(), LAYOUT)[0], loss_terms(0, BF16, habits(), LAYOUT)[0]
    assert moment("loss", (full, empty), (full,)).terms == (full, full)
