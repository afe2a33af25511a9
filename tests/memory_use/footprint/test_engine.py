"""The cache of an engine by hand, and its laws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.devices import load_device
from perfcast.core.model.weights import count_parameters
from perfcast.core.plan import Plan
from perfcast.core.precision import inference_precision
from perfcast.frameworks.serving_memory import load_serving_memory
from perfcast.memory_use.allocator.context import bytes_beside_allocator
from perfcast.memory_use.footprint.engine import EngineMemory, engine_memory, expert_rows_width
from perfcast.memory_use.footprint.setting import workspace_bytes
from perfcast.units import GIB
from small_transformers import llama, mixture

H100 = load_device("h100-sxm")
BF16 = inference_precision("bf16")
BIG = llama(heads=32, kv_heads=8, num_layers=32, hidden_size=4096, head_size=128, ffn_hidden_size=14336,
            vocab_size=128256)  # fmt: skip


def held(plan: Plan | None = None, model: Any = BIG, length: int = 1024) -> EngineMemory:
    return engine_memory(model, plan or Plan(), BF16, length, H100)


def tokens(
    framework: str, memory: EngineMemory, *, fraction: float = 0.9, step: int = 8192, sequences: int = 256
) -> int:
    profile = load_serving_memory(framework)
    found = memory.kv_tokens(profile, np.array([fraction]), np.array([step]), np.array([sequences]))
    return int(found[0])


def test_a_token_takes_keys_and_values_of_all_layers_of_the_rank():
    assert held().token_bytes.tolist() == [2 * 8 * 128 * 32 * 2]
    cut = held(Plan(tensor_parallel=2, pipeline_parallel=4))
    assert cut.token_bytes.tolist() == [2 * 4 * 128 * 8 * 2] * 4


def test_vllm_deals_out_what_its_part_of_the_device_leaves():
    memory = held()
    beside = int(bytes_beside_allocator(H100, np.array([0]))[0]) + workspace_bytes(H100)
    weights = 2 * count_parameters(BIG)
    width = 2 * 4096 + max(3 * 14336, (32 + 8 + 8) * 128 + 32 * 128 - 32 * 128)
    step = 8192 * 2 * width + 256 * 2 * 128256
    left = 0.9 * 0.9903 * H100.memory_bytes - beside - weights - step
    assert tokens("vllm", memory) == pytest.approx(left / memory.token_bytes[0], rel=1e-3)


def test_programs_differ_in_what_their_fraction_is_of():
    memory = held()
    whole = 0.9903 * H100.memory_bytes - memory.beside_bytes
    weights, step = memory.weight_bytes[0], memory.step_bytes(np.array([8192]), np.array([256]))[0, 0]
    each = memory.token_bytes[0]
    assert tokens("trtllm", memory) == int(0.9 * (whole - weights - step) / each)
    assert tokens("sglang", memory, fraction=0.8) == int((0.8 * whole - weights) / each)


def test_a_windowed_layer_keeps_no_more_than_its_window():
    windowed = replace(BIG, sliding_window=128, num_window_layers=16)
    assert held(model=windowed, length=1024).token_bytes[0] == pytest.approx(
        held().token_bytes[0] * (0.5 + 0.5 * 128 / 1024)
    )


def test_where_weights_alone_do_not_fit_there_is_no_token():
    huge = replace(BIG, num_layers=320)
    assert tokens("vllm", held(model=huge)) == 0


def test_attention_ranks_hold_a_share_of_the_experts_each():
    one, spread = (
        held(Plan(data_parallel=degree, expert_parallel=degree), mixture()).weight_bytes[0]
        for degree in (1, 4)
    )
    assert spread < one


@given(
    step=st.integers(16, 16384),
    more=st.integers(1, 16384),
    sequences=st.integers(1, 1024),
    framework=st.sampled_from(["vllm", "sglang", "trtllm"]),
)
def test_longer_steps_and_smaller_parts_never_leave_more(step, more, sequences, framework):
    memory = held()
    first = tokens(framework, memory, step=step, sequences=sequences)
    assert tokens(framework, memory, step=step + more, sequences=sequences) <= first
    assert tokens(framework, memory, step=step, sequences=sequences, fraction=0.85) <= first


def test_many_engines_at_once_are_each_alone():
    memory, profile = held(), load_serving_memory("vllm")
    steps, sequences = np.array([512, 8192]), np.array([16, 256])
    together = memory.kv_tokens(profile, np.array([0.9, 0.8]), steps, sequences)
    assert together.tolist() == [
        tokens("vllm", memory, step=512, sequences=16),
        tokens("vllm", memory, fraction=0.8),
    ]


def test_experts_keep_a_row_for_each_expert_of_a_token():
    # two experts of 96 for a token of 64: outputs of gate and up are wider than the residual
    model = mixture()
    assert expert_rows_width(model, Plan()) == 2 * 64 + 2 * (192 + 96)
    spread = Plan(data_parallel=4, expert_parallel=4)
    assert expert_rows_width(model, spread) == expert_rows_width(model, Plan())
    assert expert_rows_width(model, Plan(tensor_parallel=4, expert_parallel=4)) == 2 * 64 + 0.5 * (192 + 96)
    assert expert_rows_width(BIG, Plan()) == 0
    narrow = replace(model, experts=replace(model.experts, ffn_hidden_size=8))
    assert held(model=narrow).step_bytes_per_token[0] >= 2 * (2 * 64 + 2 * (64 + 8))


def test_vllm_counts_communication_of_several_ranks():
    one, two = (replace(held(), num_ranks=count) for count in (1, 2))
    fewer = tokens("vllm", one) - tokens("vllm", two)
    assert fewer == pytest.approx(1.79 * GIB / one.token_bytes[0], abs=1)
    assert tokens("sglang", one) == tokens("sglang", two)
