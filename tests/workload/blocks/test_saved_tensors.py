"""What a layer saves for its backward: copied to the host by the time of a step, held by its memory."""

from __future__ import annotations

import pytest

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint.activations import lay_out, layer_activations
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.step.offload import kept_elements
from small_transformers import gpt, llama

MEGATRON = Training(framework="megatron")
S = 128


@pytest.mark.parametrize("model", [gpt(has_dropout=False), llama()], ids=["gpt", "llama"])
@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(micro_batch_size=3, tensor_parallel=2),
        Plan(tensor_parallel=4, sequence_parallel=True),
    ],
)
def test_time_and_memory_know_the_same_tensors_of_a_dense_layer(model: Transformer, plan: Plan):
    """But for the row statistics of attention, which the host is not sent."""
    saved = layer_activations(
        model,
        plan,
        MEGATRON,
        load_training_profile("megatron").memory_of(MEGATRON.dtype),
        lay_out(plan, MEGATRON, S),
        has_experts=False,
    )
    held = sum(tensor.num_bytes for tensor in saved if tensor.name != "row statistics of attention")
    assert 2 * kept_elements(Local(model, plan, MEGATRON, S)) == held
