from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfcast.core.model.attention_weights import Weight
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.memory_use.footprint.buffers import (
    communication_term,
    gathered_terms,
    input_term,
    issued_ahead_term,
    offload_terms,
    workspace_terms,
)
from small_transformers import figures_of, gpt, memory_profile, one, one_rank, rank_of, sizes

LAYER, EXPERTS = Weight("layer", 100, 10), Weight("experts", 100, 10, count=3, is_expert=True)
TABLES = {"embedding": (Weight("embedding", 50, 10),), "head": (Weight("head", 50, 10),)}
FSDP = Plan(data_parallel=4, zero_stage=3)
S, H = 128, 64


def gathered(plan: Plan, **layers: Any) -> list[int]:
    return sizes(gathered_terms(one_rank(plan, LAYER, num_dense=4, **TABLES, **layers), memory_profile()))


def test_zero_3_gathers_a_layer_the_next_one_and_one_that_lands():
    """Three layers of 1,000 and both tables of 500, two bytes each; a layer's gradient and its copy."""
    assert gathered(FSDP) == [2 * (3 * 1000 + 1000), 2 * 2 * 1000]


def test_layers_prefetched_further_ahead_are_there_too_but_never_more_than_exist():
    assert gathered(replace(FSDP, num_prefetched=2))[0] == 2 * (4 * 1000 + 1000)
    assert gathered(replace(FSDP, num_prefetched=99))[0] == 2 * (5 * 1000 + 1000)


def test_without_resharding_all_weights_stay():
    assert gathered(replace(FSDP, reshard_after_forward=False))[0] == 2 * (4000 + 1000 + 1000)


def test_kinds_of_layer_that_are_not_there_are_not_gathered():
    assert gathered(FSDP, experts=(EXPERTS,))[1] == 2 * 2 * 3000
    assert gathered(FSDP, experts=(EXPERTS,), num_expert=0)[1] == 2 * 2 * 1000


def test_zero_2_gathers_nothing():
    assert gathered(replace(FSDP, zero_stage=2)) == []


def test_gathered_weights_and_the_gradient_before_it_is_sharded_are_no_states():
    terms = list(gathered_terms(one_rank(FSDP, LAYER), memory_profile()))
    assert [term.category for term in terms] == [Category.TEMPORARY] * 2


def test_parameters_on_the_host_lend_two_layers_and_the_tables_and_send_as_many_gradients():
    def lent(plan: Plan) -> list[int]:
        return sizes(offload_terms(one_rank(plan, LAYER, num_dense=4, **TABLES), memory_profile()))

    assert lent(Plan(offload="parameters")) == [2 * (2 * 1000 + 1000)] * 2
    assert lent(replace(FSDP, offload="parameters")) == []
    assert lent(Plan(offload="optimizer")) == []


def test_a_second_library_keeps_a_workspace_of_its_own():
    rank = one_rank(Plan())
    found = [
        sizes(workspace_terms(rank, 32, memory_profile(has_second_workspace=second)))
        for second in (False, True)
    ]
    assert found == [[32], [64]]


def test_a_batch_is_28_bytes_a_token_and_a_mask_of_pairs_without_flash():
    plan = Plan(micro_batch_size=2)
    found = [
        one(input_term(figures_of(gpt(), plan, training, 100))).num_bytes
        for training in (Training(framework="fsdp"), Training(framework="fsdp", attention="math"))
    ]
    assert found == [28 * 200, 28 * 200 + 2 * 100 * 100]


def test_stages_exchange_two_activations_cut_along_the_sequence():
    whole, cut, alone = (
        Plan(pipeline_parallel=2, tensor_parallel=4),
        Plan(pipeline_parallel=2, tensor_parallel=4, sequence_parallel=True),
        Plan(tensor_parallel=4),
    )
    found = [
        one(
            communication_term(
                rank_of(gpt(), plan), figures_of(gpt(), plan, sequence_length=100), memory_profile()
            )
        ).num_bytes
        for plan in (whole, cut, alone)
    ]
    assert found == [2 * 2 * 100 * 64, 2 * 2 * 25 * 64, 0]


def test_stages_of_pytorch_have_a_buffer_for_every_micro_batch():
    """Of 6 micro-batches: the first stage receives gradients alone, 2·s·b·h bytes each."""
    own = memory_profile(receives_all_micro_batches=True)
    plan = Plan(pipeline_parallel=2, num_micro_batches=6)
    figures = figures_of(gpt(), plan, sequence_length=100)
    found = one(communication_term(rank_of(gpt(), plan), figures, own)).num_bytes
    assert found == 6 * 2 * 100 * 64


def test_collectives_issued_ahead_wait_only_with_sequence_parallelism_and_without_a_pipeline():
    own = memory_profile(tensors_issued_ahead=33)
    plans = (
        Plan(tensor_parallel=2, sequence_parallel=True),
        Plan(tensor_parallel=2),
        Plan(tensor_parallel=2, sequence_parallel=True, pipeline_parallel=2),
        Plan(),
    )
    found = [
        one(issued_ahead_term(rank_of(gpt(), plan), figures_of(gpt(), plan), own)).num_bytes for plan in plans
    ]
    assert found == [33 * 2 * S * H, 0, 0, 0]
