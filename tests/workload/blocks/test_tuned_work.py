"""Steps that train a part of a model, against steps that train all of it."""

from __future__ import annotations

from collections import Counter

import pytest

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.tuning.text import parse_tuning
from perfcast.core.tuning.trained import FULL, Tuning
from perfcast.core.work import Layer, StepWork
from perfcast.workload.blocks import build_step_work
from small_transformers import llama, mixture

S = 256
LORA = parse_tuning(lora="rank=4")


def work(
    tuning: Tuning = FULL,
    plan: Plan | None = None,
    framework: str = "megatron",
    model: Transformer | None = None,
) -> StepWork:
    training = Training(framework=framework, tuning=tuning)  # type: ignore[arg-type]
    return build_step_work(model or llama(), plan or Plan(), training, S)


def layer(tuning: Tuning = FULL, plan: Plan | None = None, framework: str = "megatron") -> Layer:
    return work(tuning, plan, framework).layers[1]


def test_a_frozen_layer_has_no_weight_gradients_and_two_narrow_products_for_each_adapter():
    full, tuned = layer(), layer(LORA)
    own = [call for call in tuned.forward if not call.module.endswith(".adapter")]
    assert [call.operation for call in own] == [call.operation for call in full.forward]
    narrow = Counter(
        (call.operation.attribute("m"), call.operation.attribute("n"), call.operation.attribute("k"))
        for call in tuned.forward
        if call.module.endswith(".adapter") and call.operation.uses_matrix_units
    )
    joint, gates = 64 + 2 * 32, 2 * 192
    assert narrow == {
        (S, 4, 64): 3, (S, joint, 4): 1, (S, 64, 4): 2, (S, gates, 4): 1, (S, 4, 192): 1,
    }  # fmt: skip


def test_an_adapter_has_four_products_in_the_backward():
    tuned = layer(LORA)
    narrow = [c for c in tuned.backward if c.module.endswith(".adapter") and c.operation.uses_matrix_units]
    assert len(narrow) == 4 * 4
    own = [c for c in tuned.backward if c.is_weight_gradient and not c.module.endswith(".adapter")]
    assert not own


@pytest.mark.parametrize("framework", ["pytorch", "fsdp", "megatron", "deepspeed"])
@pytest.mark.parametrize("model", [llama(), mixture()], ids=["llama", "mixture"])
def test_lora_computes_two_thirds_of_the_products_and_its_own(framework: str, model: Transformer):
    """6·N·T without and 4·N·T with adapters, but for attention."""
    full, tuned = work(FULL, framework=framework, model=model), work(LORA, framework=framework, model=model)
    assert 0.6 * full.flops < tuned.flops < 0.95 * full.flops


def test_rank_up_is_not_fewer_flops():
    flops = [work(parse_tuning(lora=f"rank={rank}")).flops for rank in (1, 2, 8, 64)]
    assert flops == sorted(flops)
    assert len(set(flops)) == 4


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_only_what_trains_is_reduced_and_updated_and_zero_3_gathers_all(zero: int):
    plan = Plan(data_parallel=4, zero_stage=zero)
    full, tuned = work(FULL, plan, "deepspeed"), work(LORA, plan, "deepspeed")

    def sent(found: StepWork, part: str) -> int:
        calls = [call for layer in found.layers for call in getattr(layer, part)]
        return sum(call.operation.memory_traffic_bytes or sum(t.num_bytes for t in call.operation.inputs)
                   for call in calls)  # fmt: skip

    assert 0 < sent(tuned, "gradient_reduction") < 0.35 * sent(full, "gradient_reduction")
    if zero == 3:
        assert sent(tuned, "gather") >= sent(full, "gather")
    updated = [
        max(c.operation.memory_traffic_bytes for c in found.stages[0].optimizer) for found in (full, tuned)
    ]
    assert 0 < updated[1] < 0.35 * updated[0]


def test_four_bit_weights_are_widened_for_every_product_forward_and_backward():
    tuned = layer(parse_tuning(qlora="rank=4"), framework="fsdp")
    for calls in (tuned.forward, tuned.backward):
        widened = [c.operation for c in calls if c.operation.name == "dequantise_nf4"]
        assert len(widened) == 7
        elements = sum(t.num_elements for o in widened for t in o.outputs)
        assert elements == 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 192


def test_frozen_weights_are_narrowed_once_for_all_steps():
    def narrowed(tuning: Tuning) -> bool:
        training = Training(framework="megatron", dtype="fp8", tuning=tuning)
        step = build_step_work(llama(), Plan(), training, S)
        return any(call.operation.name == "quantise" for call in step.stages[0].optimizer)

    assert narrowed(FULL)
    assert narrowed(parse_tuning(freeze="layers:0-3"))
    assert not narrowed(LORA)


def test_dropout_runs_before_each_adapter():
    tuned = layer(parse_tuning(lora="rank=4,dropout=0.1"), framework="fsdp")
    assert sum(c.operation.name == "native_dropout" for c in tuned.forward) == 7
    assert sum(c.operation.name == "native_dropout_backward" for c in tuned.backward) == 7


def test_tensor_parallel_adapters_exchange_rank_wide_rows():
    """Beside qkv and up tokens × rank are gathered; beside output and down summed, and outputs gathered."""
    plan = Plan(tensor_parallel=2)
    found = Counter(
        (call.operation.name, call.operation.attribute("message_bytes"))
        for call in layer(LORA, plan).forward
        if call.module.endswith(".adapter") and call.stream.value == "tensor"
    )
    row, whole = 2 * S * 4, 2 * S * 64
    assert found == {("all_gather", row): 2, ("all_reduce", row): 2, ("all_gather", whole): 2}


def test_sequence_parallel_adapters_trade_their_outputs_for_tokens_where_asked():
    """tokens × hidden / tp of each rank, in place of tokens × hidden that all gather."""
    plan = Plan(tensor_parallel=2, sequence_parallel=True, overlaps_tensor=True)
    traded = layer(parse_tuning(lora="rank=4,a2a=1"), plan)
    for calls in (traded.forward, traded.backward):
        found = Counter(
            call.operation.attribute("message_bytes")
            for call in calls
            if call.operation.name == "all_to_all" and call.module.endswith(".adapter")
        )
        assert found == {2 * S * 32: 2}


def test_layers_that_no_gradient_reaches_have_no_backward_and_a_frozen_one_behind_them_passes_it_on():
    idle = work(parse_tuning(freeze="embedding,layers:0-2"))
    assert [(layer.name, bool(layer.backward)) for layer in idle.layers] == [
        ("embedding", False), ("idle layer", False), ("layer", True), ("head", True),
    ]  # fmt: skip
    passing = work(parse_tuning(freeze="layers:3-4"))
    names = {layer.name: layer for layer in passing.layers}
    assert names["frozen layer"].backward
    assert not any(call.is_weight_gradient for call in names["frozen layer"].backward)
    assert any(call.is_weight_gradient for call in names["layer"].backward)


def test_training_the_head_alone_ends_the_backward_there():
    found = work(parse_tuning(freeze="embedding,attention,mlp,norms"))
    assert not any(layer.backward for layer in found.layers if layer.name != "head")
    products = [c for c in found.layers[-1].backward if c.operation.uses_matrix_units]
    assert [c.is_weight_gradient for c in products] == [True]
