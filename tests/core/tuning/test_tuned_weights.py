"""Weights by what happens to them, against figures made by hand."""

from __future__ import annotations

import pytest

from perfcast.catalogs.models import load_models
from perfcast.core.model.attention_weights import count_elements
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import kinds_of_layer, stage_weights
from perfcast.core.plan import Plan
from perfcast.core.tuning.text import parse_tuning
from perfcast.core.tuning.trained import NF4_BYTES, Adapters, Tuning
from perfcast.core.tuning.weights import check_tuning, layer_adapters, part_of, split_weights
from perfcast.errors import PlanError
from perfcast.prediction.model import read_model
from small_transformers import gpt, llama, mixture


def num_adapters(model: Transformer, adapters: Adapters, plan: Plan | None = None, **joins: bool) -> int:
    found = layer_adapters(model, plan or Plan(), adapters, has_experts=False, **joins)
    return model.num_layers * sum(count_elements(adapter.weights) for adapter in found)


def test_llama_3_8b_with_rank_16_on_all_linear_layers_trains_41_943_040_parameters():
    """As PEFT counts: 16 · (4096 + 4096) twice, 16 · (4096 + 1024) twice, 16 · (4096 + 14336) thrice."""
    model = read_model("llama3-8b").sizes
    assert num_adapters(model, Adapters(rank=16)) == 41_943_040
    assert num_adapters(model, Adapters(rank=8, targets=("q", "v"))) == 32 * 8 * (8192 + 5120)


def test_a_joint_product_has_one_adapter_where_all_its_parts_are_targets():
    """Megatron's linear_qkv and linear_fc1: 16 · (4096 + 6144) and 16 · (4096 + 28672)."""
    model = read_model("llama3-8b").sizes
    joined = num_adapters(model, Adapters(rank=16), joins_projections=True)
    assert joined == 32 * 16 * (10_240 + 8192 + 32_768 + 18_432)
    some = Adapters(rank=16, targets=("q", "v"))
    assert num_adapters(model, some, joins_projections=True) == num_adapters(model, some)


@pytest.mark.parametrize("degree", [2, 4])
def test_tensor_parallel_ranks_have_equal_parts_of_every_adapter(degree: int):
    adapters, cut = Adapters(rank=16), Plan(tensor_parallel=degree)
    assert num_adapters(llama(), adapters, cut) * degree == num_adapters(llama(), adapters)


def test_four_bits_with_double_quantisation_are_4_127_bits():
    """Dettmers et al., 2023, section 3: 8/64 + 32/(64 · 256) = 0.127 bits a weight."""
    assert pytest.approx(4.127, abs=5e-4) == 8 * NF4_BYTES


@pytest.mark.parametrize("name", [name for name in sorted(load_models()) if read_model(name).has_sizes])
def test_every_weight_of_the_catalog_is_of_a_part_and_happens_to_it_once(name: str):
    sizes = read_model(name).sizes
    whole = stage_weights(sizes, Plan(), 0, vocab_size=sizes.vocab_size)
    weights = (*whole.dense_layer, *whole.expert_layer, *whole.embedding, *whole.head)
    parts = {weight.name: part_of(weight) for weight in weights}
    assert parts["embedding"] == "embedding"
    for tuning in (Tuning(), parse_tuning(qlora="rank=4"), parse_tuning(freeze="attention,embedding")):
        split = split_weights(tuning, weights)
        assert sorted(map(id, (*split.trained, *split.frozen, *split.quantised))) == sorted(map(id, weights))


def test_four_bits_take_the_matrices_of_layers_alone():
    dense, _ = kinds_of_layer(gpt(), Plan())
    split = split_weights(parse_tuning(qlora="rank=4"), dense)
    assert [w.name for w in split.quantised] == [w.name for w in dense if w.columns > 1]
    assert not split.trained


def test_a_frozen_embedding_and_first_layers_let_the_backward_end_behind_them():
    assert parse_tuning(freeze="embedding,layers:0-3").first_with_gradient == 4
    assert parse_tuning(freeze="layers:0-3").first_with_gradient == 0
    assert parse_tuning(freeze="embedding,layers:2-3").first_with_gradient == 0
    assert parse_tuning(lora="rank=4").first_with_gradient == 0
    probing = parse_tuning(freeze="embedding,attention,mlp,experts,router,norms")
    assert not probing.has_gradient(llama().num_layers - 1)


@pytest.mark.parametrize(
    ("model", "tuning", "words"),
    [
        (llama(), parse_tuning(freeze="layers:0-8"), "layers 0 to 7"),
        (llama(), parse_tuning(freeze="router"), "no experts"),
        (gpt(), parse_tuning(freeze="embedding"), "tied"),
        (gpt(), parse_tuning(lora="targets=gate"), "has none"),
        (mixture(), parse_tuning(lora="targets=mlp"), "take attention"),
        (llama(), parse_tuning(freeze="embedding,head,layers:0-7"), "nothing trains"),
    ],
)
def test_what_a_model_does_not_have_is_an_error(model: Transformer, tuning: Tuning, words: str):
    with pytest.raises(PlanError, match=words):
        check_tuning(model, tuning)
