"""What a rank keeps of a sequence, by hand."""

from __future__ import annotations

from perfcast.core.model.transformer import LinearAttention, Transformer
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision, inference_precision
from perfcast.memory_use.footprint.serving import ServingSetting, serving_stages
from perfcast.prediction.model import read_model
from small_transformers import llama

BF16 = inference_precision("bf16")


def kept(model: Transformer, plan: Plan, tokens: int, precision: Precision = BF16) -> int:
    """Bytes of one sequence of so many tokens, of the stage that keeps most."""
    stages = serving_stages(ServingSetting(model, precision, tokens, True), plan)
    return max(t.num_bytes for stage in stages for t in stage.peak.terms if t.name == "keys and values")


def kept_of_token(model: Transformer, plan: Plan, precision: Precision = BF16) -> int:
    """Of one more token, where windows are full."""
    return kept(model, plan, 5001, precision) - kept(model, plan, 5000, precision)


def test_full_attention_keeps_keys_and_values_of_every_token():
    model = read_model("qwen3-235b-a22b").sizes  # 94 layers of 4 heads of 128
    assert kept(model, Plan(), 3000) == 3000 * 94 * 2 * 4 * 128 * 2
    assert kept_of_token(model, Plan(tensor_parallel=8)) == 94 * 2 * 128 * 2


def test_latent_attention_keeps_one_vector_whole_on_every_rank():
    model = read_model("deepseek-r1").sizes
    for degree in (1, 8):
        assert kept_of_token(model, Plan(tensor_parallel=degree)) == 61 * (512 + 64) * 2


def test_layers_with_a_window_keep_no_more_than_it_has():
    model = read_model("gpt-oss-120b").sizes  # 18 of 36 layers see 128 tokens
    each = 2 * 8 * 64 * 2
    assert kept(model, Plan(), 100) == 36 * each * 100
    assert kept(model, Plan(), 1000) == 18 * each * 1000 + 18 * each * 128


def test_linear_attention_keeps_a_state_however_long_a_sequence_is():
    model, plan = read_model("qwen3.5-397b-a17b").sizes, Plan(tensor_parallel=2)
    state = 32 * 128 * 128 * 4 + (2 * 8 * 128 + 32 * 128) * 3 * 2
    each = 15 * 2 * 1 * 256 * 2
    assert kept_of_token(model, plan) == each
    assert kept(model, plan, 1000) == 1000 * each + 45 * state


def test_an_indexer_keeps_a_key_in_fp8_with_its_scale_besides():
    model = read_model("glm-5").sizes
    assert kept_of_token(model, Plan(tensor_parallel=8)) == 78 * ((512 + 64) * 2 + 128 + 4)


def test_sparse_attention_keeps_scales_and_the_rotated_part_in_16_bits_beside_fp8():
    model, precision = read_model("glm-5").sizes, inference_precision("fp8_block", "fp8")
    assert kept_of_token(model, Plan(), precision) == 78 * (656 + 128 + 4)


def test_of_several_stages_the_one_that_keeps_most_counts():
    linear = LinearAttention(6, 2, 4, 8, 8, 4)
    model = llama(num_layers=8, linear_attention=linear)  # full layers are the fourth and the eighth
    assert kept_of_token(model, Plan(pipeline_parallel=4)) == kept_of_token(model, Plan()) / 2
