"""Adapters, four-bit weights and frozen parts in captured modules, on models small enough to count."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from perfcast.core.graph import Graph, Phase
from perfcast.core.tensor import Category
from perfcast.core.tuning.text import parse_tuning
from perfcast.core.tuning.trained import Tuning
from perfcast.errors import ModelError
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.models.tuned.linear import FourBitLinear
from perfcast.workload.models.tuned.tune import part_of_parameter, targets_of, tune_module
from perfcast.workload.shape import StepShape

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256,
    "tie_word_embeddings": False,
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 2, "n_head": 4,
    "n_positions": 64, "vocab_size": 256,
}  # fmt: skip
S = 32


def step(
    tuning: Tuning, config: dict[str, object] | None = None, *, fold: bool = True, **shape: str
) -> Graph:
    asked = StepShape(sequence_length=S, dtype="bf16", tuning=tuning, **shape)
    options = CaptureOptions(autocast_dtype=asked.autocast_dtype, fold_layers=fold)
    return capture(lambda: build_program(config or LLAMA, None, asked), options)[0]


def num_products(graph: Graph, phase: Phase) -> int:
    return sum(
        graph.operations[n.operation].uses_matrix_units and "mm" in graph.operations[n.operation].name
        for n in graph.nodes
        if n.phase is phase
    )


def held(graph: Graph, category: str) -> int:
    return sum(s.num_bytes for s in graph.storages if s.category == category)


def test_an_adapter_adds_two_products_forward_and_four_backward_and_a_frozen_layer_loses_one():
    """Seven linear layers each of six, and the head: the first q, k and v have no input to pass to."""
    full, tuned = step(parse_tuning()), step(parse_tuning(lora="rank=4"))
    assert num_products(full, Phase.FORWARD) == 43
    assert num_products(tuned, Phase.FORWARD) == 43 + 2 * 42
    assert num_products(full, Phase.BACKWARD) == 86
    assert num_products(tuned, Phase.BACKWARD) == 43 - 3 + 4 * 42 - 3


def test_states_are_those_of_the_adapters_alone_and_the_model_is_kept_in_16_bits():
    tuned = step(parse_tuning(lora="rank=4"))
    each = 4 * ((64 + 64) * 2 + (64 + 32) * 2 + (64 + 128) * 3)
    assert held(tuned, Category.GRADIENT) == 4 * 6 * each
    moments = held(tuned, Category.OPTIMIZER_STATE)
    assert 8 * 6 * each <= moments <= 8 * 6 * each + 4 * 2 * 42
    full = step(parse_tuning())
    assert held(tuned, Category.PARAMETER) == held(full, Category.PARAMETER) / 2 + 4 * 6 * each


def test_four_bits_are_widened_forward_and_backward_and_count_as_the_weights_they_are():
    four, sixteen = step(parse_tuning(qlora="rank=4")), step(parse_tuning(lora="rank=4"))
    names = Counter(four.operations[n.operation].name for n in four.nodes)
    assert names["dequantise_nf4"] == 2 * 42 - 3
    assert four.parameter_count == sixteen.parameter_count
    assert held(four, Category.PARAMETER) < 0.6 * held(sixteen, Category.PARAMETER)


def test_folding_changes_nothing():
    for tuning in (parse_tuning(qlora="rank=4,dropout=0.1"), parse_tuning(freeze="embedding,layers:0-2")):
        folded, whole = step(tuning), step(tuning, fold=False)
        assert len(folded.nodes) == len(whole.nodes)
        assert folded.flops == whole.flops


def test_checkpointed_layers_train_their_adapters():
    tuned = step(parse_tuning(lora="rank=4"), recompute="full")
    assert held(tuned, Category.GRADIENT) == held(step(parse_tuning(lora="rank=4")), Category.GRADIENT)


def test_gpt_2s_own_linear_layers_are_adapted_too():
    tuned = step(parse_tuning(lora="rank=4,targets=q+v"), GPT2)
    assert held(tuned, Category.GRADIENT) == 4 * 2 * 4 * (64 + 192)


def test_nothing_runs_backward_before_what_trains():
    tuned = step(parse_tuning(freeze="embedding,layers:0-4"))
    assert num_products(tuned, Phase.BACKWARD) == 2 * 8  # the norm before q, k and v trains
    assert held(tuned, Category.ACTIVATION) < held(step(parse_tuning()), Category.ACTIVATION) / 2


def test_four_bit_layers_compute_what_their_weight_says():
    torch.manual_seed(0)
    layer = FourBitLinear(nn.Linear(64, 8, bias=False), 64, 8, torch.float32)
    with torch.no_grad():
        layer.packed.random_(0, 255)
        layer.scales.fill_(1)
        layer.scale_scales.fill_(1.0)
    x = torch.randn(3, 64, requires_grad=True)
    y = layer(x)
    torch.testing.assert_close(y, x @ layer.widened().T)
    y.sum().backward()
    torch.testing.assert_close(x.grad, layer.widened().sum(0).expand(3, 64))


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("model.layers.0.self_attn.q_proj", {"q"}),
        ("transformer.h.0.attn.c_attn", {"q", "k", "v"}),
        ("transformer.h.0.attn.c_proj", {"o"}),
        ("transformer.h.0.mlp.c_proj", {"down"}),
        ("bert.encoder.layer.0.attention.output.dense", {"o"}),
        ("bert.encoder.layer.0.intermediate.dense", {"up"}),
        ("bert.encoder.layer.0.output.dense", {"down"}),
        ("model.layers.0.mlp.gate_up_proj", {"gate", "up"}),
        ("my.own.name", set()),
    ],
)
def test_linear_layers_are_known_by_their_names(name: str, targets: set[str]):
    assert targets_of(name) == targets


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.embed_tokens.weight", "embedding"),
        ("transformer.wpe.weight", "embedding"),
        ("lm_head.weight", "head"),
        ("model.layers.3.self_attn.o_proj.weight", "attention"),
        ("model.layers.3.input_layernorm.weight", "norms"),
        ("model.norm.weight", "norms"),
        ("transformer.h.0.mlp.c_fc.bias", "mlp"),
        ("model.layers.0.mlp.experts.gate_up_proj", "experts"),
        ("model.layers.0.mlp.gate.weight", "router"),
        ("model.layers.0.mlp.gate_proj.weight", "mlp"),
        ("scale", None),
    ],
)
def test_parameters_are_of_parts_by_their_names(name: str, part: str | None):
    assert part_of_parameter(name, ("lm_head.",)) == part


def test_what_a_module_does_not_have_is_an_error():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with pytest.raises(ModelError, match="no linear layer of Sequential is a target of q"):
        tune_module(module, parse_tuning(lora="targets=q"), torch.float32)
    with pytest.raises(ModelError, match="no parameter of it"):
        tune_module(module, parse_tuning(freeze="embedding"), torch.float32)
    with pytest.raises(ModelError, match="last layer"):
        tune_module(module, parse_tuning(freeze="layers:0-1"), torch.float32)
