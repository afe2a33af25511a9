from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.core.collective import message_bytes
from perfcast.core.model.transformer import LatentAttention, Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.work import Calls, Stream
from perfcast.errors import ModelError, PlanError
from perfcast.workload.blocks.attention.latent import latent_attention_backward, latent_attention_forward
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape
from small_transformers import llama

#: DeepSeek-V3's attention (DeepSeek-AI 2024, section 4.2).
DEEPSEEK = llama(
    heads=128, kv_heads=128, hidden_size=7168, head_size=128, ffn_hidden_size=18432,
    latent_attention=LatentAttention(1536, 512, 128, 64, 128),
)  # fmt: skip
TOKENS = 4096


def local(model: Transformer, plan: Plan) -> Local:
    return Local(model, plan, Training(framework="megatron"), TOKENS)


def forward(plan: Plan, model: Transformer = DEEPSEEK) -> Calls:
    tape = Tape()
    latent_attention_forward(tape, local(model, plan))
    return tape.calls()


def backward(plan: Plan, model: Transformer = DEEPSEEK) -> Calls:
    tape = Tape()
    latent_attention_backward(tape, local(model, plan))
    return tape.calls()


def flops(calls: Calls) -> int:
    return sum(call.operation.flops for call in calls if call.operation.uses_matrix_units)


WEIGHTS = (
    7168 * 1536 + 1536 * 128 * 192  # queries down, up
    + 7168 * (512 + 64) + 512 * 128 * (128 + 128)  # keys and values down, up
    + 128 * 128 * 7168  # output
)  # fmt: skip
PAIRS = 2 * TOKENS * TOKENS * 128 * (192 + 128)


def test_a_deepseek_layer_attends_with_its_weights_and_its_pairs():
    assert flops(forward(Plan())) == 2 * TOKENS * WEIGHTS + PAIRS


def test_a_backward_has_twice_as_much():
    assert flops(backward(Plan())) == 2 * flops(forward(Plan()))


def test_values_are_narrower_than_keys():
    core = next(call.operation for call in forward(Plan()) if call.module == "attention.core")
    assert (core.attribute("head_size"), core.attribute("value_head_size")) == (192, 128)


def test_without_compressed_queries_they_come_from_the_hidden_vector():
    lite = replace(DEEPSEEK, latent_attention=LatentAttention(None, 512, 128, 64, 128))
    more = 7168 * 128 * 192 - (7168 * 1536 + 1536 * 128 * 192)
    assert flops(forward(Plan(), lite)) - flops(forward(Plan())) == 2 * TOKENS * more


def test_down_projections_are_whole_on_every_rank_and_the_rest_is_cut():
    half = flops(forward(Plan(tensor_parallel=2)))
    down = 2 * TOKENS * 7168 * (1536 + 576)
    assert half == (flops(forward(Plan())) - down) // 2 + down


def test_sequence_parallelism_gathers_the_compressed_vectors_and_cuts_the_down_projections():
    plan = Plan(tensor_parallel=4, sequence_parallel=True)
    calls = forward(plan)
    sent = [
        (call.operation.name, message_bytes(call.operation)) for call in calls if call.stream is Stream.TENSOR
    ]
    assert sent == [
        ("all_gather", TOKENS * 1536 * 2),
        ("all_gather", TOKENS * 576 * 2),
        ("reduce_scatter", TOKENS * 7168 * 2),
    ]
    assert flops(calls) == flops(forward(Plan())) // 4


def test_selective_recomputation_repeats_the_core_alone():
    again = [call for call in backward(Plan(recompute="selective")) if call.is_recomputed]
    assert [call.operation.name for call in again] == ["attention"]


def test_a_cut_sequence_sends_keys_and_values_of_all_heads():
    calls = forward(Plan(context_parallel=2))
    (sent,) = [message_bytes(call.operation) for call in calls if call.stream is Stream.CONTEXT]
    assert sent == TOKENS // 2 * 128 * (192 + 128) * 2


def test_other_attention_is_refused():
    with pytest.raises(ModelError, match="without it"):
        forward(Plan(), llama())
    with pytest.raises(PlanError, match="tp_inputs=2 with latent attention"):
        forward(Plan(tensor_parallel=4, tensor_parallel_inputs=2))
