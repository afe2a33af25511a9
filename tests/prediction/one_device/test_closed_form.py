"""The captured step beside the closed form, through the front door."""

from __future__ import annotations

import json

import pytest

from perfcast import predict_memory
from perfcast.errors import ModelError, PlanError
from perfcast.prediction import Request
from perfcast.prediction.one_device.closed_form import compare_with_closed_form

CONFIG = {
    "model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 2048, "max_position_embeddings": 128,
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("model") / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


def test_both_peaks_are_within_two_percent_and_the_rows_add_up_to_them(model):
    options = {"batch_size": 2, "sequence_length": 64, "dtype": "bf16"}
    forecast = predict_memory(model, "h100-sxm", **options)
    comparison = compare_with_closed_form(Request(model=model, **options), forecast)
    assert abs(comparison.relative_error) < 0.02
    assert comparison.graph_bytes == forecast.memory.peak_bytes
    explained = sum(row.difference_bytes for row in comparison.differences)
    assert explained == comparison.closed_form_bytes - comparison.graph_bytes


@pytest.mark.parametrize(("mode", "tolerance"), [("prefill", 0.15), ("decode", 0.02)])
def test_inference_is_compared_with_the_closed_form_of_a_plan(model, mode: str, tolerance: float):
    """Which counts one layer's work beside the logits; weights, cache and logits are equal to the byte."""
    options = {"batch_size": 2, "sequence_length": 64, "dtype": "bf16", "mode": mode}
    forecast = predict_memory(model, "h100-sxm", **options)
    comparison = compare_with_closed_form(Request(model=model, **options), forecast)
    assert abs(comparison.relative_error) < tolerance
    equal = {row.name for row in comparison.rows if row.closed_form_bytes and not row.difference_bytes}
    assert {"weights", "keys and values", "logits"} <= equal


def test_inference_with_attention_written_out_is_refused(model):
    options = {"batch_size": 1, "sequence_length": 16, "mode": "prefill", "attention": "eager"}
    forecast = predict_memory(model, "h100-sxm", **options)
    with pytest.raises(PlanError, match="fused attention only"):
        compare_with_closed_form(Request(model=model, **options), forecast)


def test_several_micro_batches_are_refused(model):
    request = Request(model=model, batch_size=4, micro_batch_size=2)
    forecast = predict_memory(model, "h100-sxm", batch_size=1, sequence_length=16)
    with pytest.raises(PlanError, match="one eager forward"):
        compare_with_closed_form(request, forecast)


def test_a_model_without_a_closed_form_is_named():
    forecast = predict_memory("resnet-50", "h100-sxm")
    with pytest.raises(ModelError, match="resnet-50"):
        compare_with_closed_form(Request(model="resnet-50"), forecast)
