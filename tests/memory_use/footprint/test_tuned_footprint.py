"""What a rank holds that trains a part of a model: figures by hand, and laws against training all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.forecast.footprint import StageFootprint
from perfcast.core.model.weights import count_parameters
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.tuning.text import format_tuning, parse_tuning
from perfcast.core.tuning.trained import Tuning
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.model import read_model
from small_transformers import gpt, llama

STATES = (Category.PARAMETER, Category.GRADIENT, Category.OPTIMIZER_STATE)
GIB = 2**30
TUNINGS = [
    parse_tuning(lora="rank=2"),
    parse_tuning(lora="rank=2,targets=attention,dropout=0.1"),
    parse_tuning(qlora="rank=2"),
    parse_tuning(freeze="embedding,layers:0-3"),
    parse_tuning(freeze="attention,norms"),
]
PLANS = [
    Plan(num_micro_batches=4),
    Plan(tensor_parallel=2, sequence_parallel=True, pipeline_parallel=2, num_micro_batches=4),
    Plan(data_parallel=4, zero_stage=3, recompute="full"),
    Plan(data_parallel=2, zero_stage=1, pipeline_parallel=4, num_micro_batches=8),
]


def states(stage: StageFootprint) -> int:
    found = next(c for c in stage.peak_candidates if c.name == "optimizer")
    return sum(term.num_bytes for term in found.terms if term.category in STATES)


def term(model_name: str, training: Training, name: str, plan: Plan | None = None) -> int:
    model = read_model(model_name).sizes
    stage = estimate_footprint(model, plan or Plan(), training, 512).stages[0]
    (found,) = [t for t in stage.peak.terms if t.name == name]
    return found.num_bytes


@pytest.mark.parametrize("tuning", TUNINGS, ids=format_tuning)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("framework", ["megatron", "fsdp", "deepspeed"])
def test_no_stage_holds_more_states_than_one_that_trains_everything(
    tuning: Tuning, plan: Plan, framework: str
):
    framework = "fsdp" if tuning.is_quantised else framework
    whole = Training(framework=framework)  # type: ignore[arg-type]
    tuned = replace(whole, tuning=tuning)
    pair = [estimate_footprint(llama(), plan, training, 128).stages for training in (whole, tuned)]
    assert all(states(tuned) <= states(full) for full, tuned in zip(*pair, strict=True))


def test_llama_3_8b_under_lora_by_hand():
    """8,030,261,248 frozen in two bytes; 41,943,040 in four, with gradients and two moments of four."""
    training = Training(framework="fsdp", tuning=parse_tuning(lora="rank=16"))
    assert term("llama3-8b", training, "frozen weights") == 2 * 8_030_261_248
    assert term("llama3-8b", training, "adapters") == 4 * 41_943_040
    assert term("llama3-8b", training, "gradients") == 4 * 41_943_040
    assert term("llama3-8b", training, "moments of adamw") == 8 * 41_943_040


def test_four_bits_take_the_layers_matrices_and_leave_the_rest():
    """Of Llama-3-8B 32 · 218,103,808 elements in 4.127 bits; both tables and 65 norms in sixteen."""
    training = Training(framework="fsdp", tuning=parse_tuning(qlora="rank=16"))
    packed = term("llama3-8b", training, "frozen weights in four bits")
    assert packed == pytest.approx(32 * 218_103_808 * (0.5 + 1 / 64 + 4 / 16_384), abs=1)
    assert term("llama3-8b", training, "frozen weights") == 2 * (2 * 128_256 * 4096 + 65 * 4096)
    assert term("llama3-8b", training, "a matrix out of four bits") == 2 * 2 * 14_336 * 4096


def test_gpt_3_under_lora_needs_a_third_of_its_memory():
    """1.2 TB to 350 GB (Hu et al., 2021, section 4.2): 16 bytes a parameter against two."""
    model = gpt(heads=96, hidden=12_288, layers=96, vocabulary=50_257)
    assert count_parameters(model) == pytest.approx(175e9, rel=0.01)
    tuned = Training(framework="megatron", optimizer="adam", tuning=parse_tuning(lora="rank=4,targets=q+v"))
    held = states(estimate_footprint(model, Plan(), tuned, 2048).stages[0])
    assert held / 1e9 == pytest.approx(350, rel=0.02)


def test_a_65b_model_trains_with_four_bits_on_one_device_of_48_gb():
    """Dettmers et al., 2023: a 65B model on one GPU of 48 GB, at a micro-batch of one and 512 tokens, every
    layer computed again, with 8-bit (there: paged) moments.
    """
    model = llama(
        heads=64, kv_heads=64, hidden_size=8192, head_size=128, num_layers=80, ffn_hidden_size=22_016,
        vocab_size=32_000,
    )  # fmt: skip
    assert count_parameters(model) == pytest.approx(65e9, rel=0.01)
    training = Training(framework="fsdp", optimizer="adamw_8bit", tuning=parse_tuning(qlora="rank=64"))
    footprint = estimate_footprint(
        model, Plan(recompute="full"), training, 512, device=load_device("rtx-a6000")
    )
    assert 35 * GIB < footprint.device_bytes < 48 * GIB


def test_a_frozen_layer_that_passes_gradients_on_keeps_no_input_of_its_products():
    def kept(freeze: str | None) -> int:
        training = Training(framework="megatron", tuning=parse_tuning(freeze=freeze))
        stage = estimate_footprint(llama(), Plan(), training, 128).stages[0]
        return sum(t.num_bytes for t in stage.peak.terms if t.name == "layer activations")

    tokens, hidden, width = 128, 64, 192
    one = 2 * tokens * (2 * hidden + width)
    assert kept(None) - kept("layers:3-3") == one
    assert kept("embedding,layers:0-3") == kept(None) / 2
