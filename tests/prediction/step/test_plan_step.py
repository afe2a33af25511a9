"""The front door of plans, on small models priced by the roofline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.errors import PlanError, UnknownNameError
from perfcast.prediction.step.constants import load_step_constants
from perfcast.prediction.step.predict import predict_plan
from small_transformers import llama

PLAN = Plan(
    data_parallel=2, tensor_parallel=2, pipeline_parallel=2, num_micro_batches=4, sequence_parallel=True
)
BIG = llama(hidden_size=2048, head_size=256, ffn_hidden_size=6144, vocab_size=32_000)


def predicted(plan: Plan = PLAN, cluster: str = "dgx-h100:8", **options: Any) -> PlanForecast:
    options = {
        "sequence_length": 1024,
        "cost_model": Roofline(),
        "memory": False,
        "recommendations": False,
    } | options
    return predict_plan(BIG, cluster, plan, **options)


@pytest.fixture(scope="module")
def whole() -> PlanForecast:
    return predicted(memory=True, recommendations=True, notes=("chosen before",))


def test_what_every_rank_spends_adds_up_to_the_step(whole: PlanForecast):
    for rank in whole.time.ranks:
        assert sum(rank.seconds_by_cause.values()) == pytest.approx(whole.step_seconds)
    assert sum(whole.time.seconds_by_cause.values()) == pytest.approx(whole.step_seconds)
    assert sum(rank.num_equal for rank in whole.time.ranks) == whole.num_devices == 8


def test_the_interval_holds_the_estimate(whole: PlanForecast):
    assert 0 < whole.step_seconds_low < whole.step_seconds < whole.step_seconds_high


def test_a_wider_interval_has_the_same_middle():
    constants = replace(load_step_constants(), interval_widening=2.0)
    narrow, wide = predicted(), predicted(constants=constants)
    assert wide.step_seconds == narrow.step_seconds
    assert wide.step_seconds_high - wide.step_seconds == pytest.approx(
        2 * (narrow.step_seconds_high - narrow.step_seconds)
    )
    assert wide.step_seconds_low <= narrow.step_seconds_low


def test_tokens_and_utilization_are_those_of_the_whole_step(whole: PlanForecast):
    assert whole.num_tokens == PLAN.global_batch_size * 1024
    assert 0 < whole.mfu == whole.hfu < 1


def test_recommendations_save_time_the_most_first(whole: PlanForecast):
    saved = [recommendation.saved_seconds for recommendation in whole.recommendations]
    assert saved == sorted(saved, reverse=True)
    assert all(seconds > 0 for seconds in saved)
    for recommendation in whole.recommendations:
        assert recommendation.step_seconds + recommendation.saved_seconds == pytest.approx(whole.step_seconds)
    names = {recommendation.name for recommendation in whole.recommendations}
    assert {"tensor-parallel communication takes no time", "no stage waits for another (no bubble)"} <= names
    assert "nothing is computed twice" not in names


def test_recomputation_is_relieved_where_there_is_some():
    forecast = predicted(replace(PLAN, recompute="full"), recommendations=True)
    plain = predicted()
    (recommendation,) = [r for r in forecast.recommendations if r.name == "nothing is computed twice"]
    assert recommendation.step_seconds == pytest.approx(plain.step_seconds, rel=0.02)
    assert forecast.hfu > forecast.mfu


def test_a_host_that_is_late_is_relieved():
    slow = replace(
        load_step_constants(),
        launch_seconds=dict.fromkeys(load_step_constants().launch_seconds, 1e-3),
    )
    forecast = predicted(constants=slow, recommendations=True)
    assert forecast.time.seconds_by_cause["host"] > 0.1 * forecast.step_seconds
    assert forecast.recommendations[0].name == "the host is never late"


def test_what_every_step_takes_is_other_time_on_all_ranks():
    plain, longer = (
        predicted(constants=replace(load_step_constants(), fixed_seconds={"megatron": seconds}))
        for seconds in (0.0, 0.25)
    )
    assert longer.step_seconds == pytest.approx(plain.step_seconds + 0.25)
    assert longer.time.seconds_by_cause["other"] == pytest.approx(0.25)


def test_what_was_assumed_is_said(whole: PlanForecast):
    assert "chosen before" in whole.assumptions
    assert any("the host issues a kernel every" in note for note in whole.assumptions)
    assert not any("does not fit" in note for note in whole.assumptions)


def test_a_step_that_does_not_fit_says_so_first():
    plan = replace(PLAN, micro_batch_size=64)
    forecast = predicted(plan, memory=True, sequence_length=8192)
    assert forecast.memory is not None
    assert not forecast.memory.fits
    assert "the step does not fit" in forecast.assumptions[0]


def test_a_plan_with_a_key_that_has_no_effect_is_refused():
    with pytest.raises(PlanError, match="cp_type=ulysses has no effect: cp=1 cuts no sequence"):
        predicted(replace(PLAN, context_communication="ulysses"))
    with pytest.raises(PlanError, match="recompute=full has no effect: it is of a training"):
        predicted(replace(PLAN, recompute="full"), mode="prefill")


def test_a_sequence_beyond_the_learned_positions_is_said():
    model = replace(BIG, positions="learned", max_positions=1000)
    for length, count in ((1024, 1), (512, 0)):
        notes = predict_plan(
            model, "dgx-h100:8", PLAN, sequence_length=length, cost_model=Roofline(), recommendations=False
        ).assumptions
        assert sum("more than the model's table of 1,000 positions" in note for note in notes) == count


def test_faster_links_never_slow_a_step_down():
    plan = replace(PLAN, tensor_parallel=8, data_parallel=1, pipeline_parallel=1)
    assert predicted(plan, "hgx-b200:8").step_seconds < predicted(plan, "h100-pcie:8").step_seconds


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_inference_has_no_training(mode: str):
    plan = Plan(tensor_parallel=8, micro_batch_size=4)
    forecast = predicted(plan, mode=mode, memory=True)
    assert forecast.training is None
    assert forecast.num_tokens == (4 if mode == "decode" else 4 * 1024)
    assert forecast.step_seconds > 0


def test_the_cluster_has_the_plans_devices():
    with pytest.raises(PlanError, match=r"dp=2 · tp=2 · pp=2 · cp=1 = 8 devices, but dgx-h100 has 16"):
        predicted(cluster="dgx-h100:16")


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(tensor_parallel=16), "tp=16"),
        (Plan(pipeline_parallel=16), "pp=16"),
        (Plan(tensor_parallel=8, data_parallel=2, expert_parallel=2), "no experts"),
    ],
)
def test_a_plan_that_cannot_cut_the_model_states_its_equation(plan: Plan, says: str):
    with pytest.raises(PlanError, match=says):
        predicted(plan, "dgx-h100:16")


def test_unknown_names_list_the_known():
    with pytest.raises(UnknownNameError, match="simulated, closed_form"):
        predicted(method="guess")
    with pytest.raises(UnknownNameError, match="train, prefill, decode"):
        predicted(mode="serve")


def test_a_training_of_ones_own_is_followed():
    forecast = predicted(training=Training(dtype="fp8", framework="megatron", optimizer="muon"))
    assert (forecast.dtype, forecast.training.optimizer) == ("fp8", "muon")
