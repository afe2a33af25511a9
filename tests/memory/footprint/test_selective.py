"""What 'selective' keeps is the framework's: the core of attention dropped, or every second product kept."""

from __future__ import annotations

import pytest

from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan
from perfcast.core.training import Training, TrainingFramework
from perfcast.core.transformer import Transformer
from perfcast.frameworks.load import load_training_profile
from perfcast.memory.footprint.activations import Saved, lay_out, layer_bytes
from perfcast.memory.footprint.selective import made_again_bytes, saved_tensors
from perfcast.workload.blocks.layer.training import layer_backward, layer_forward
from perfcast.workload.blocks.local import Local
from small_transformers import gpt, llama

S = 128
SELECTIVE, NONE = Plan(recompute="selective"), Plan()


def kept(
    model: Transformer, plan: Plan = SELECTIVE, framework: TrainingFramework = "torchtitan"
) -> tuple[Saved, ...]:
    training = Training(framework=framework)
    layout = lay_out(plan, training, S)
    profile = load_training_profile(framework)
    return saved_tensors(model, plan, training, profile, layout, has_experts=False)


def test_torchtitan_keeps_input_attention_and_every_second_product():
    """Of queries, keys, values, output, gate, up and down: the first, third, fifth and seventh."""
    model = llama()
    hidden, width = model.hidden_size, model.ffn_hidden_size
    values = model.num_kv_heads * model.head_size
    rows = 2 * S * (hidden + hidden + values + width + hidden + hidden)
    statistics = 4 * S * model.num_attention_heads
    assert layer_bytes(kept(model)) == rows + statistics


def test_megatron_drops_no_more_than_the_core_of_attention():
    dropped = set(kept(llama(), NONE, "megatron")) - set(kept(llama(), SELECTIVE, "megatron"))
    assert {tensor.name for tensor in dropped} == {"row statistics of attention"}


def test_what_is_scattered_along_the_sequence_is_kept_with_the_products_before_it():
    plan = Plan(tensor_parallel=2, sequence_parallel=True, recompute="selective")
    found = {tensor.name: tensor.num_bytes for tensor in kept(llama(), plan)}
    hidden = llama().hidden_size
    assert found["product behind the MLP"] == 2 * S * hidden
    assert found["what the MLP reduced and scattered"] == S * hidden


def test_a_backward_has_all_tensors_again():
    every = kept(llama(), NONE)
    read = sum(
        min(tensor.num_bytes, sum(other.num_bytes for other in every if other.name == tensor.name))
        for tensor in kept(llama())
    )
    assert made_again_bytes(kept(llama()), every) == layer_bytes(every) - read


@pytest.mark.parametrize("model", [llama(), gpt(has_dropout=False)], ids=["llama", "gpt"])
def test_time_and_memory_keep_the_same_products(model: Transformer):
    """The products that the backward runs again write what memory does not keep."""
    plain = Local(model, NONE, Training(framework="torchtitan"), S)
    selective = Local(model, SELECTIVE, Training(framework="torchtitan"), S)
    forward = [call for call in layer_forward(plain, False) if call.operation.kind is OperationKind.MATMUL]
    again = [call.operation for call in layer_backward(selective, False) if call.is_recomputed]
    products = [operation for operation in again if operation.kind is OperationKind.MATMUL]
    assert products == [call.operation for call in forward[1::2]]
    assert not any(operation.kind is OperationKind.ATTENTION for operation in again)
    written = sum(out.num_bytes for call in forward[::2] for out in call.operation.outputs)
    unwritten = ("input of the attention norm", "output of attention", "row statistics of attention")
    assert written == sum(each.num_bytes for each in kept(model) if each.name not in unwritten)
