"""The closed form of plain PyTorch programs: by hand, and against the liveness of captured graphs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.forecast.device import MemoryForecast
from perfcast.core.forecast.footprint import PeakCandidate
from perfcast.core.model.transformer import Transformer
from perfcast.errors import ModelError, UnknownNameError
from perfcast.memory_use.compare import compare_with_liveness
from perfcast.memory_use.footprint.pytorch.step import estimate_eager
from perfcast.memory_use.footprint.pytorch.tape import AutogradTape, Block, Value, run_backward
from perfcast.memory_use.liveness import estimate_memory
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.request.one_device import Request
from perfcast.workload.models.transformer import read_transformer

DECODER = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
           "intermediate_size": 704, "vocab_size": 512}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**DECODER, "model_type": "llama", "num_key_value_heads": 8},
    "llama-gqa": {**DECODER, "model_type": "llama", "tie_word_embeddings": True, "vocab_size": 4000},
    "mistral-windowed": {**DECODER, "model_type": "mistral", "sliding_window": 64},
    "qwen3": {**DECODER, "model_type": "qwen3", "head_dim": 48},
    "gemma2": {**DECODER, "model_type": "gemma2", "head_dim": 32},
    "gpt2": {"model_type": "gpt2", "n_embd": 256, "n_layer": 2, "n_head": 8, "vocab_size": 512},
    "opt": {"model_type": "opt", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8,
            "ffn_dim": 1024, "vocab_size": 512, "word_embed_proj_dim": 128, "do_layer_norm_before": False},
    "bert": {**DECODER, "model_type": "bert", "vocab_size": 4000, "architectures": ["BertForMaskedLM"]},
    "phi": {**DECODER, "model_type": "phi", "num_key_value_heads": 8, "hidden_act": "gelu_pytorch_tanh"},
    "qwen3-moe": {**DECODER, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 128},
    "mixtral": {**DECODER, "model_type": "mixtral", "num_local_experts": 4, "vocab_size": 8000},
    "deepseek": {**DECODER, "model_type": "deepseek_v3", "q_lora_rank": 96, "kv_lora_rank": 64,
                 "num_key_value_heads": 8, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
                 "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
                 "moe_intermediate_size": 128, "n_shared_experts": 1, "first_k_dense_replace": 1},
}  # fmt: skip
TOLERANCE = 0.02
LITTLE = Transformer(
    num_layers=2, hidden_size=8, num_attention_heads=2, num_kv_heads=2, head_size=4, ffn_hidden_size=32,
    vocab_size=100, is_gated=True, activation="silu", norm="rmsnorm", has_linear_bias=False,
    has_qkv_bias=False, ties_embeddings=False,
)  # fmt: skip


@cache
def both(
    folder: Path, name: str, dtype: str, recompute: str, attention: str, optimizer: str
) -> tuple[tuple[PeakCandidate, ...], MemoryForecast]:
    """Moments of the closed form, and the liveness of what a user would capture."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    asked = {"batch_size": 4, "sequence_length": 128, "dtype": dtype, "recompute": recompute,
             "optimizer": optimizer}  # fmt: skip
    request = Request(model=str(path), attention="eager" if attention == "math" else "sdpa", **asked)
    graph, _ = build_graph(request, load_device("h100-sxm"))
    moments = estimate_eager(read_transformer(CONFIGS[name], None), attention=attention, **asked)
    return moments, estimate_memory(graph, 1)


def peak(moments: tuple[PeakCandidate, ...]) -> PeakCandidate:
    return max(moments, key=lambda moment: moment.num_bytes)


def named(moment: PeakCandidate, name: str) -> int:
    return sum(term.num_bytes for term in moment.terms if term.name == name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("configs")


# ---- against captured graphs ---------------------------------------------------------------------


CASES = [
    *((name, "bf16") for name in CONFIGS),
    *((name, "fp32") for name in ("llama", "gpt2", "bert", "deepseek")),
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_the_peak_of_a_training_step_is_within_two_percent_of_the_graph(folder: Path, name: str, dtype: str):
    moments, memory = both(folder, name, dtype, "none", "flash", "none")
    assert peak(moments).num_bytes == pytest.approx(memory.peak_bytes, rel=TOLERANCE)


@pytest.mark.parametrize("name", ["llama", "gpt2", "deepseek"])
def test_checkpointed_mixed_precision_is_within_two_percent(folder: Path, name: str):
    moments, memory = both(folder, name, "bf16", "full", "flash", "none")
    assert peak(moments).num_bytes == pytest.approx(memory.peak_bytes, rel=TOLERANCE)


@pytest.mark.parametrize("name", ["llama-gqa", "gpt2"])
def test_attention_written_out_is_within_two_percent(folder: Path, name: str):
    moments, memory = both(folder, name, "bf16", "none", "math", "none")
    assert peak(moments).num_bytes == pytest.approx(memory.peak_bytes, rel=TOLERANCE)


@pytest.mark.parametrize("optimizer", ["adamw", "momentum"])
def test_optimizers_are_within_two_percent(folder: Path, optimizer: str):
    moments, memory = both(folder, "llama-gqa", "bf16", "full", "flash", optimizer)
    assert peak(moments).num_bytes == pytest.approx(memory.peak_bytes, rel=TOLERANCE)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mixtral"])
def test_every_kept_block_is_known_by_name(folder: Path, name: str):
    """At a peak of the same kind, what one side alone knows is indices and statistics: a thousandth."""
    moments, memory = both(folder, name, "bf16", "none", "flash", "none")
    comparison = compare_with_liveness(peak(moments), memory)
    kept = [row for row in comparison.rows if row.category == "activation"]
    assert sum(abs(row.difference_bytes) for row in kept) < 0.002 * memory.peak_bytes


# ---- by hand -------------------------------------------------------------------------------------


def value(num_bytes: int, is_parameter: bool = False) -> Value:
    return Value(1, num_bytes, 1, Block("block", num_bytes), is_parameter)


def test_a_step_holds_what_it_saved_its_gradients_and_its_temporaries():
    tape, x, y = AutogradTape(), value(10), value(100)
    tape.record("double", [(x, 10)], y, [x.block], temporary_bytes=7)
    assert run_backward(tape, y).num_bytes == 10 + 100 + 10 + 7


def test_what_earlier_steps_saved_waits_and_what_later_ones_saved_is_gone():
    tape, x, y, z = AutogradTape(), value(1), value(10), value(100)
    tape.record("first", [(x, 1)], y, [x.block])
    tape.record("second", [(y, 10)], z, [y.block])
    # second: saved 1 + 10, gradients 100 + 10; first: saved 1, gradients 10 + 1
    assert (run_backward(tape, z).step, run_backward(tape, z).num_bytes) == ("second", 121)


def test_gradients_that_meet_are_summed_into_a_third():
    tape, x, y, z = AutogradTape(), value(1000), value(1000), value(1)
    tape.record("branch", [(x, 1000)], y)
    tape.record("sum", [(y, 1000), (x, 1000)], z)
    instant = run_backward(tape, z)
    assert instant.stream_bytes == 3000


def test_a_gradient_handed_on_to_two_inputs_is_one_block():
    tape, a, b, total = AutogradTape(), value(50), value(50), value(50)
    tape.record("sum", [(a, 0), (b, 0)], total)
    assert run_backward(tape, total).num_bytes == 50


def test_gradients_of_parameters_stay():
    tape, x, weight, y = AutogradTape(), value(8), value(500, is_parameter=True), value(8)
    tape.record("product", [(x, 8), (weight, 500)], y)
    tape.record("wide", [(y, 8)], value(8), temporary_bytes=100)
    instant = run_backward(tape, tape.steps[-1].outputs[0])
    assert (instant.step, instant.stream_bytes + instant.gradient_bytes) == ("product", 8 + 8 + 500)
    assert tape.gradient_bytes == 500


def little(**asked: Any) -> dict[str, PeakCandidate]:
    options: dict[str, Any] = {"batch_size": 3, "sequence_length": 5, "dtype": "fp32", **asked}
    return {moment.name: moment for moment in estimate_eager(LITTLE, **options)}


def test_a_layer_in_fp32_keeps_what_a_hand_counts():
    """T·H·4 = 15·8·4 = 480; T·F·4 = 1920.

    Norms: inputs and scaled rows, 4 · 480, and a number per row, 2 · 60; what they feed the products,
    2 · 480; rotated queries and keys and the values, 3 · 480; the core's output 480 and 4·B·h·S = 120;
    gate, its activation, up and their product, 4 · 1920.
    """
    layer = 4 * 480 + 2 * 60 + 2 * 480 + 3 * 480 + 480 + 120 + 4 * 1920
    moment = little()["backward of the head"]
    # behind the layers: the last norm (two of 480, 60), its output, the log-softmax 15·100·4
    head = 3 * 480 + 60 + 6000
    tables = 2 * 5 * 4 * 4
    kept = sum(term.num_bytes for term in moment.terms if term.category == "activation")
    assert kept == 2 * layer + head + tables


def test_the_loss_makes_two_gradients_of_the_size_of_its_log_softmax():
    moment = little()["backward of the head"]
    assert named(moment, "log-softmax of the logits in fp32") == 15 * 100 * 4
    assert named(moment, "gradients of the logits in fp32") == 2 * 15 * 100 * 4


def test_weights_and_adams_states_are_four_and_eight_bytes_a_parameter():
    layer = 4 * 8 * 8 + 3 * 8 * 32 + 2 * 8
    parameters = 2 * layer + 2 * 100 * 8 + 8
    moment = little(optimizer="adamw")["optimizer"]
    assert named(moment, "weights") == named(moment, "gradients") == 4 * parameters
    assert named(moment, "optimizer state") == 8 * parameters
    assert named(moment, "denominators of the update") == 4 * parameters


def test_a_fused_optimizer_needs_nothing_besides_and_a_loop_twice_the_largest_parameter():
    fused = little(optimizer="adam", optimizer_implementation="fused")["optimizer"]
    loop = little(optimizer="adam", optimizer_implementation="loop")["optimizer"]
    assert named(fused, "denominators of the update") == 0
    assert named(loop, "denominators of the update") == 2 * 4 * 100 * 8


def test_a_tied_embedding_meets_the_heads_gradient():
    tied = estimate_eager(
        Transformer(**{f: getattr(LITTLE, f) for f in LITTLE.__slots__} | {"ties_embeddings": True}),
        batch_size=1, sequence_length=2, dtype="fp32", optimizer="none",
    )  # fmt: skip
    moment = next(m for m in tied if m.name == "backward of the embedding")
    # two gradients of the table beside the head's, which is counted with those that are done
    assert named(moment, "gradients of the embedding and its rows") == 2 * 100 * 8 * 4


def test_checkpointed_layers_keep_their_input_alone():
    moment = little(recompute="full")["backward of the head"]
    assert named(moment, "residual stream") == (2 + 1) * 480
    assert named(moment, "gates of the MLP") == 0


def test_autocast_copies_weights_once_and_activations_for_each_product():
    moment = little(dtype="bf16")["backward of the head"]
    matrices = 4 * 8 * 8 + 3 * 8 * 32
    assert named(moment, "autocast copies of weights") == 2 * (2 * matrices + 8 * 100)
    # queries, keys, values, gate and up copy their input, the head too; the other products read bf16
    assert named(moment, "autocast copies of activations") == 2 * 15 * 8 * (2 * 5 + 1)


@pytest.mark.parametrize(
    "wrong",
    [{"dtype": "fp8"}, {"recompute": "half"}, {"attention": "eager"},
     {"optimizer": "lion"}, {"optimizer_implementation": "fast"}],
)  # fmt: skip
def test_unknown_words_are_refused(wrong: dict[str, str]):
    with pytest.raises(UnknownNameError):
        little(**wrong)


def test_an_activation_of_unknown_insides_is_refused():
    model = Transformer(**{f: getattr(LITTLE, f) for f in LITTLE.__slots__} | {"activation": "mish"})
    with pytest.raises(ModelError, match="'mish' saves"):
        estimate_eager(model, batch_size=1, sequence_length=2)
