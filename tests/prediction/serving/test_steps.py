"""Steps of engines: what ``predict_plan`` says of the same step, and laws of every table."""

from dataclasses import replace

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.plan import Plan
from perfcast.core.precision import inference_precision
from perfcast.core.serving.scheduling import Speculation
from perfcast.core.serving.step import StepBatch, batches_in_columns
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.errors import ModelError
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.request.serving import EngineOptions
from perfcast.prediction.serving.steps import build_step_times, step_host
from perfcast.prediction.step.predict import predict_plan

_DEVICE = resolve_device("h100-sxm")
_DENSE, _MIXTURE = Plan(tensor_parallel=2), Plan(data_parallel=2, expert_parallel=2)
_BARE = EngineOptions(host_seconds=0.0)


def _times(
    model: str | NamedModel, plan: Plan, engine: EngineOptions = _BARE, cost_model: str = "learned"
) -> TabulatedSteps:
    return build_step_times(
        read_model(model),
        plan,
        inference_precision("bf16"),
        load_cluster(f"dgx-h100:{plan.world_size}"),
        _DEVICE,
        resolve_cost_model(cost_model, _DEVICE, "vllm"),
        "vllm",
        engine=engine,
    )


def _predicted(model: str, plan: Plan, mode: str, sequences: int, length: int) -> float:
    return predict_plan(
        model,
        load_cluster(f"dgx-h100:{plan.world_size}"),
        replace(plan, micro_batch_size=sequences),
        mode=mode,
        sequence_length=length,
        dtype="bf16",
        framework="vllm",
        recommendations=False,
        memory=False,
    ).step_seconds  # type: ignore[arg-type]


def prompts(count: int, length: int) -> StepBatch:
    return StepBatch(0, 0, count, count * length, count * length * (length + 1) / 2, count)


@pytest.mark.parametrize(("model", "plan"), [("llama3-8b", _DENSE), ("mixtral-8x7b", _MIXTURE)])
@pytest.mark.parametrize(("sequences", "length"), [(1, 2048), (1, 3000), (24, 700)])
def test_decoding_takes_what_a_forecast_of_the_same_step_says(
    model: str, plan: Plan, sequences: int, length: int
) -> None:
    batch = StepBatch(sequences, sequences * length)
    expected = _predicted(model, plan, "decode", sequences, length)
    assert _times(model, plan).seconds(batch) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("model", "plan", "spread"), [("llama3-8b", _DENSE, 0.025), ("mixtral-8x7b", _MIXTURE, 0.05)]
)
@pytest.mark.parametrize(("count", "length"), [(1, 1024), (1, 3000), (4, 1024)])
def test_a_prompt_takes_what_a_forecast_of_the_same_step_says(
    model: str, plan: Plan, spread: float, count: int, length: int
) -> None:
    """Tiles of experts with equally many rows are full at the points of the grid, and not between them."""
    expected = _predicted(model, plan, "prefill", count, length)
    assert _times(model, plan).seconds(prompts(count, length)) == pytest.approx(expected, rel=spread)


def test_stages_of_a_pipeline_share_the_work() -> None:
    alone, staged = (_times("llama3-8b", Plan(pipeline_parallel=degree)) for degree in (1, 4))
    batch = StepBatch(8, 8 * 1000)
    assert staged.stages == 4
    assert alone.seconds(batch) / 4 < staged.seconds(batch) < alone.seconds(batch) / 3
    assert staged.latency_seconds(batch) > alone.seconds(batch)


def test_a_chunk_behind_a_cache_takes_longer_than_the_same_tokens_without() -> None:
    times = _times("llama3-8b", Plan())
    first, later = (StepBatch(0, 0, 1, 2048, 2048 * behind + 2048 * 2049 / 2) for behind in (0, 6144))
    assert times.seconds(first) < times.seconds(later) < 1.5 * times.seconds(first)


def test_an_imbalance_of_experts_makes_steps_longer() -> None:
    even, uneven = (_times("mixtral-8x7b", _MIXTURE, replace(_BARE, expert_load=load)) for load in (1.0, 1.8))
    assert uneven.seconds(prompts(1, 2048)) > 1.2 * even.seconds(prompts(1, 2048))


def test_a_rank_that_reads_alone_has_experts_of_all_ranks_to_itself() -> None:
    times = _times("deepseek-v3", Plan(data_parallel=8, expert_parallel=8), cost_model="roofline")
    alone, all_ranks = (
        times.seconds_together(batches_in_columns([prompts(1, 4096)] * ranks), 8) for ranks in (1, 8)
    )
    assert alone < 0.6 * all_ranks
    assert all_ranks == pytest.approx(times.seconds(prompts(1, 4096)), rel=1e-6)


def test_drafted_tokens_cost_a_layer_each_and_their_checks() -> None:
    sizes = read_model("llama3-8b").sizes
    drafting = NamedModel("drafting", given_sizes=replace(sizes, num_prediction_layers=1))
    engine = replace(_BARE, speculation=Speculation(2, 0.8))
    plain, drafted = _times("llama3-8b", Plan()), _times(drafting, Plan(), engine)
    batch = StepBatch(4, 4 * 1000)
    assert drafted.tokens_per_sequence == 3
    assert 1.05 < drafted.seconds(batch) / plain.seconds(batch) < 1.6


def test_limits_of_one_sequence_and_one_token_still_make_a_table() -> None:
    times = _times("llama3-8b", Plan(), replace(_BARE, max_sequences=1, max_step_tokens=1))
    assert 0 < times.seconds(StepBatch(1, 1000)) < times.seconds(StepBatch(1, 10_000))


def test_a_host_named_by_its_processor_is_faster_on_a_faster_one() -> None:
    ampere, hopper = (
        step_host("vllm", "0.2.0", resolve_device(name)) for name in ("a100-sxm-80gb", "h100-sxm")
    )
    assert ampere.fixed_seconds == pytest.approx(9.8e-3)
    assert hopper.fixed_seconds == pytest.approx(0.72 * 9.8e-3)
    assert step_host("vllm", "0.16.0", resolve_device("h100-sxm")).overlaps


def test_a_model_without_prediction_layers_drafts_nothing() -> None:
    with pytest.raises(ModelError, match="nothing drafts"):
        _times("llama3-8b", Plan(), replace(_BARE, speculation=Speculation(1, 0.8)))


@pytest.mark.parametrize("cost_model", ["learned", "roofline"])
def test_tables_never_fall(cost_model: str) -> None:
    times = _times("mixtral-8x7b", _MIXTURE, cost_model=cost_model)
    for curve in (times.answer_tokens, times.mixed_tokens, times.rows):
        assert (np.diff(curve.values.sum(axis=-1), axis=1) >= -1e-12).all()
    for surface in (times.answers, times.prompts):
        for axis in (1, 2):
            assert (np.diff(surface.values.sum(axis=-1), axis=axis) >= -1e-12).all()
    assert 0 < times.low < 1 < times.high
