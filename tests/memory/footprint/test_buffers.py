from __future__ import annotations

from dataclasses import replace

from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.weights import StageWeights, Weight
from perfcast.memory.footprint.activations import lay_out
from perfcast.memory.footprint.buffers import (
    exchange_term,
    gathered_terms,
    input_term,
    offload_terms,
    workspace_terms,
)
from small_transformers import habits

LAYER, EXPERTS = Weight("layer", 100, 10), Weight("experts", 100, 10, count=3, is_expert=True)
STAGE = StageWeights(
    num_dense_layers=4,
    num_expert_layers=0,
    dense_layer=(LAYER,),
    expert_layer=(EXPERTS,),
    embedding=(Weight("embedding", 50, 10),),
    head=(Weight("head", 50, 10),),
    holds_head=True,
)
FSDP = Plan(data_parallel=4, zero_stage=3)


def gathered(plan: Plan, stage: StageWeights = STAGE) -> list[int]:
    return [term.num_bytes for term in gathered_terms(stage, plan, habits())]


def test_zero_3_gathers_a_layer_the_next_one_and_one_that_lands():
    """Three layers of 1,000 and both tables of 500, two bytes each; a layer's gradient and its copy."""
    assert gathered(FSDP) == [2 * (3 * 1000 + 1000), 2 * 2 * 1000]


def test_layers_prefetched_further_ahead_are_there_too_but_never_more_than_exist():
    assert gathered(replace(FSDP, num_prefetched=2))[0] == 2 * (4 * 1000 + 1000)
    assert gathered(replace(FSDP, num_prefetched=99))[0] == 2 * (5 * 1000 + 1000)


def test_without_resharding_all_weights_stay():
    assert gathered(replace(FSDP, reshard_after_forward=False))[0] == 2 * (4000 + 1000 + 1000)


def test_kinds_of_layer_that_are_not_there_are_not_gathered():
    mixed = replace(STAGE, num_expert_layers=1)
    assert gathered(FSDP, mixed)[1] == 2 * 2 * 3000


def test_zero_2_gathers_nothing():
    assert gathered(replace(FSDP, zero_stage=2)) == []


def test_gathered_weights_and_the_gradient_before_it_is_sharded_are_no_states():
    assert {term.category for term in gathered_terms(STAGE, FSDP, habits())} == {Category.TEMPORARY}


def test_parameters_on_the_host_lend_two_layers_and_the_tables_and_send_as_many_gradients():
    lent = [t.num_bytes for t in offload_terms(STAGE, Plan(offload="parameters"), habits())]
    assert lent == [2 * (2 * 1000 + 1000)] * 2
    assert offload_terms(STAGE, replace(FSDP, offload="parameters"), habits()) == ()
    assert offload_terms(STAGE, Plan(offload="optimizer"), habits()) == ()


def test_a_second_library_keeps_a_workspace_of_its_own():
    one, two = (workspace_terms(32, habits(has_second_workspace=second))[0] for second in (False, True))
    assert (one.num_bytes, two.num_bytes) == (32, 64)


def test_a_batch_is_28_bytes_a_token_and_a_mask_of_pairs_without_flash():
    plan = Plan(micro_batch_size=2)
    sizes = [
        input_term(lay_out(plan, training, 100), training).num_bytes
        for training in (Training(), Training(attention="math"))
    ]
    assert sizes == [28 * 200, 28 * 200 + 2 * 100 * 100]


def test_stages_exchange_two_activations_cut_along_the_sequence():
    whole, cut, alone = (
        Plan(pipeline_parallel=2, tensor_parallel=4),
        Plan(pipeline_parallel=2, tensor_parallel=4, sequence_parallel=True),
        Plan(tensor_parallel=4),
    )
    sizes = [
        exchange_term(lay_out(plan, Training(), 100), plan, 64).num_bytes for plan in (whole, cut, alone)
    ]
    assert sizes == [2 * 2 * 100 * 64, 2 * 2 * 25 * 64, 0]
