"""What a rank keeps of a sequence, by hand."""

from __future__ import annotations

import pytest

from perfcast.core.cache import cache_of_engine
from perfcast.core.plan import Plan
from perfcast.core.precision import inference_precision
from perfcast.core.transformer import LinearAttention
from perfcast.memory_use.footprint.serving import ServingSetting, serving_stages
from perfcast.prediction.model import read_model
from small_transformers import llama

BF16 = inference_precision("bf16")


def test_full_attention_keeps_keys_and_values_of_every_token():
    model = read_model("qwen3-235b-a22b").sizes  # 94 layers of 4 heads of 128
    held = cache_of_engine(model, Plan(), BF16)
    assert (held.token_bytes, held.sequence_bytes) == (94 * 2 * 4 * 128 * 2, 0)
    assert cache_of_engine(model, Plan(tensor_parallel=8), BF16).token_bytes == 94 * 2 * 128 * 2


def test_latent_attention_keeps_one_vector_whole_on_every_rank():
    model = read_model("deepseek-r1").sizes
    for degree in (1, 8):
        held = cache_of_engine(model, Plan(tensor_parallel=degree), BF16)
        assert held.token_bytes == 61 * (512 + 64) * 2


def test_layers_with_a_window_keep_no_more_than_it_has():
    model = read_model("gpt-oss-120b").sizes  # 18 of 36 layers see 128 tokens
    held = cache_of_engine(model, Plan(), BF16)
    each = 2 * 8 * 64 * 2
    assert (held.token_bytes, held.sequence_bytes) == (18 * each, 18 * each * 128)
    assert held.bytes_of(100) == 36 * each * 100
    assert held.bytes_of(1000) == 18 * each * 1000 + 18 * each * 128


def test_linear_attention_keeps_a_state_however_long_a_sequence_is():
    model = read_model("qwen3.5-397b-a17b").sizes
    held = cache_of_engine(model, Plan(tensor_parallel=2), BF16)
    state = 32 * 128 * 128 * 4 + (2 * 8 * 128 + 32 * 128) * 3 * 2
    assert held.state_bytes == 45 * state
    assert held.token_bytes == 15 * 2 * 1 * 256 * 2
    assert held.bytes_of(1000) - held.bytes_of(1) == 999 * held.token_bytes


def test_an_indexer_keeps_a_key_in_fp8_with_its_scale_besides():
    held = cache_of_engine(read_model("glm-5").sizes, Plan(tensor_parallel=8), BF16)
    assert held.token_bytes == 78 * ((512 + 64) * 2 + 128 + 4)


def test_sparse_attention_keeps_scales_and_the_rotated_part_in_16_bits_beside_fp8():
    held = cache_of_engine(read_model("glm-5").sizes, Plan(), inference_precision("fp8_block", "fp8"))
    assert held.token_bytes == 78 * (656 + 128 + 4)


@pytest.mark.parametrize("name", ["gpt-oss-20b", "qwen3.5-397b-a17b", "glm-5", "kimi-k2.5"])
@pytest.mark.parametrize("tokens", [60, 3000])
def test_the_footprint_of_a_plan_says_the_same(name: str, tokens: int):
    model = read_model(name).sizes
    plan = Plan(tensor_parallel=2, micro_batch_size=3)
    (stage,) = serving_stages(ServingSetting(model, BF16, tokens, True), plan)
    (term,) = [t for t in stage.peak.terms if t.name == "keys and values"]
    assert term.num_bytes == 3 * cache_of_engine(model, plan, BF16).bytes_of(tokens)


def test_of_several_stages_the_one_that_keeps_most_counts():
    linear = LinearAttention(6, 2, 4, 8, 8, 4)
    model = llama(num_layers=8, linear_attention=linear)  # full layers are the fourth and the eighth
    held = cache_of_engine(model, Plan(pipeline_parallel=4), BF16)
    assert held.token_bytes == cache_of_engine(model, Plan(), BF16).token_bytes / 2
