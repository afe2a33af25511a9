from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import made_up_device
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import InputError, ModelError, PlanError, UnknownNameError
from perfcast.frameworks.choice import default_framework
from perfcast.prediction.model import read_model
from perfcast.prediction.plan.memory import predict_plan_memory
from perfcast.units import GIB

TINY = {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 32,
        "max_position_embeddings": 32}  # fmt: skip
DEVICE = made_up_device()


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return str(path)


def test_a_config_is_enough(tiny: str):
    result = predict_plan_memory(tiny, DEVICE, Plan(data_parallel=2))
    layer = 12 * 64**2 + 13 * 64
    assert result.parameter_count == 4 * layer + 512 * 64 + 32 * 64 + 2 * 64
    assert (result.sequence_length, result.capacity_bytes) == (32, 8 * GIB)
    assert result.fits
    assert (result.step_seconds, result.recommendations) == (None, ())


def test_its_folder_will_do(tiny: str):
    assert read_model(str(Path(tiny).parent)).sizes == read_model(tiny).sizes


@pytest.mark.parametrize(
    ("name", "parameters", "length"), [("llama3-8b", 8_030_261_248, 8192), ("gpt2", 124_439_808, 1024)]
)
def test_catalog_models_bring_their_length(name: str, parameters: int, length: int):
    result = predict_plan_memory(name, DEVICE, Plan())
    assert (result.parameter_count, result.sequence_length) == (parameters, length)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bert-base", 109_514_298), ("opt-350m", 331_196_416), ("neusight-opt", 109_257_216),
        ("gemma2-9b", 9_241_705_984), ("qwen2.5-0.5b", 494_032_768), ("deepseek-v2", 235_741_434_880),
        ("qwen3-30b-a3b", 30_532_122_624), ("gpt3-175b", 174_604_259_328),
    ],
)  # fmt: skip
def test_the_count_is_that_of_the_module(name: str, parameters: int):
    assert predict_plan_memory(name, DEVICE, Plan()).parameter_count == parameters


@pytest.mark.parametrize(
    ("plan", "framework"),
    [
        (Plan(data_parallel=8), "pytorch"),
        (Plan(data_parallel=8, zero_stage=3), "fsdp"),
        (Plan(data_parallel=8, zero_stage=1), "deepspeed"),
        (Plan(data_parallel=8, zero_stage=2), "deepspeed"),
        (Plan(data_parallel=4, tensor_parallel=2, zero_stage=1), "megatron"),
        (Plan(data_parallel=4, tensor_parallel=2, zero_stage=3), "fsdp"),
        (Plan(data_parallel=2, expert_parallel=2), "megatron"),
        (Plan(tensor_parallel=2), "megatron"),
        (Plan(pipeline_parallel=2), "megatron"),
        (Plan(context_parallel=2), "megatron"),
    ],
)
def test_a_plan_suggests_a_framework(plan: Plan, framework: str):
    assert default_framework(plan) == framework


def test_inference_has_no_training(tiny: str):
    result = predict_plan_memory(tiny, DEVICE, Plan(), mode="decode", training=Training())
    assert result.training is None
    assert [moment.name for moment in result.footprint.peak_stage.peak_candidates] == ["decode"]


def test_training_states_the_precision(tiny: str):
    assert predict_plan_memory(tiny, DEVICE, Plan(), training=Training(dtype="fp16")).dtype == "fp16"


@pytest.mark.parametrize(
    ("model", "options", "error", "says"),
    [
        ("resnet-50", {}, ModelError, "resnet-50: the closed form does not describe"),
        ("model.py:build", {}, ModelError, "needs the sizes of a model, not a program"),
        ("no-such-model", {}, UnknownNameError, "no-such-model"),
        ("gpt2", {"mode": "serve"}, UnknownNameError, "train, prefill, decode"),
        ("gpt2", {"sequence_length": 0}, PlanError, "sequence length 0"),
        ("gpt2", {"sequence_length": -5}, PlanError, "sequence length -5"),
        ("gpt2", {"mode": "decode", "fit": True}, PlanError, "inference has none"),
        ("gpt2", {"device": "h1000"}, InputError, "h1000"),
    ],
)
def test_what_cannot_be_forecast_is_refused(
    model: str, options: dict[str, object], error: type[InputError], says: str
):
    device = options.pop("device", DEVICE)
    with pytest.raises(error, match=says):
        predict_plan_memory(model, device, Plan(), **options)


def test_a_config_without_a_length_asks_for_one(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({k: v for k, v in TINY.items() if "positions" not in k and "embeddings" not in k})
    )
    with pytest.raises(ModelError, match="--sequence-length"):
        predict_plan_memory(str(path), DEVICE, Plan())


def test_what_would_make_it_fit_comes_on_request(tiny: str):
    result = predict_plan_memory(tiny, "h100-sxm", Plan(data_parallel=2), fit=True)
    assert result.step_seconds is not None
    assert result.step_seconds > 0
    assert result.recommendations
    assert result.timed_on == "timed by the closed form on dgx-h100:2"


def test_links_that_are_not_known_leave_recommendations_without_a_time(tiny: str):
    result = predict_plan_memory(tiny, DEVICE, Plan(data_parallel=2), fit=True)
    assert result.step_seconds is None
    assert result.timed_on == "not timed: no cluster of made-up is known; name one with --cluster"
    assert {recommendation.extra_seconds for recommendation in result.recommendations} == {None}


def test_one_device_needs_no_cluster(tiny: str):
    result = predict_plan_memory(tiny, "h100-sxm", Plan(micro_batch_size=2), fit=True)
    assert result.timed_on == "timed by the closed form on h100-sxm:1"
    assert all(recommendation.extra_seconds is not None for recommendation in result.recommendations)


def test_a_cluster_of_ones_own_is_what_recommendations_are_timed_on(tiny: str):
    asked = {"plan": Plan(data_parallel=2), "fit": True}
    result = predict_plan_memory(tiny, "h100-sxm", **asked, cluster="hgx-h100-ethernet")
    assert result.timed_on == "timed by the closed form on hgx-h100-ethernet:2"
    with pytest.raises(PlanError, match="has a100"):
        predict_plan_memory(tiny, "h100-sxm", **asked, cluster="dgx-a100")
