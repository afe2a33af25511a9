"""Sums over ranks of a forecast."""

import pytest

from made_up_programs import KERNELS
from perfcast.core.forecast.plan import PlanForecast, RankTime, StepTime
from perfcast.core.plan import Plan

TIME = StepTime(
    2.0, (RankTime(0, 0, 3, {"compute": 2.0}), RankTime(3, 1, 1, {"compute": 1.0, "bubble": 1.0}))
)


def test_causes_are_means_over_ranks_and_add_up_to_the_step():
    assert TIME.seconds_by_cause == {"compute": 1.75, "bubble": 0.25}
    assert sum(TIME.seconds_by_cause.values()) == TIME.step_seconds


def test_utilisation_counts_recomputed_flops_apart():
    forecast = PlanForecast(
        model="m", cluster="c", device="d", num_devices=4, mode="train", method="simulated", plan=Plan(),
        training=None, dtype="bf16", sequence_length=8, cost_model="roofline", time=TIME,
        step_seconds_low=1.0,
        step_seconds_high=3.0, num_tokens=80, flops=400, recompute_flops=200, peak_flops_per_second=100.0,
        parameter_count=1, program=KERNELS,
    )  # fmt: skip
    assert forecast.mfu == pytest.approx(0.5)
    assert forecast.hfu == pytest.approx(0.75)
    assert forecast.tokens_per_second_per_device == pytest.approx(10.0)
