"""What a forecast's first plan costs among the measured ones."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfcast.core.plan import Plan
from perfcast.validate.published_choice import group_plans, score_choices


def case(tensor: int, measured: float | None, job: str = "a") -> Any:
    run = SimpleNamespace(run=SimpleNamespace(plan=Plan(tensor_parallel=tensor)))
    return SimpleNamespace(source="x", configuration={"model": job}, run=run, measured_seconds=measured)


CASES = [case(1, 10.0), case(2, 12.0), case(4, 8.0), case(8, 20.0)]


def test_the_first_plan_is_judged_by_its_measured_time():
    # Forecast first: tp=1, measured 10 s, 25 % above the best, 8 s; the best is among the first five of four.
    entry = score_choices(CASES, {"p": [1.0, 2.0, 3.0, 4.0]})[0]
    assert (entry["n"], entry["share_within_15_percent"], entry["share_best_in_first_five"]) == (1, 0, 1)
    assert entry["median_loss"] == pytest.approx(0.25)
    assert score_choices(CASES, {"p": [2.0, 3.0, 1.0, 4.0]})[0]["share_within_15_percent"] == 1


def test_the_best_plan_beyond_the_first_five_is_missed():
    cases = [case(2**at, 10.0 - at) for at in range(6)]
    assert score_choices(cases, {"p": [0, 1, 2, 3, 4, 5]})[0]["share_best_in_first_five"] == 0


def test_repeats_share_their_median_and_small_groups_are_left_out():
    cases = [*CASES, case(1, 30.0), case(1, 12.0), case(1, 5.0, job="b")]
    groups = group_plans(cases, [1.0] * len(cases))
    assert len(groups) == 1
    assert groups[0][0] == (1.0, 12.0)


def test_cases_without_forecast_or_measurement_do_not_count():
    assert score_choices([*CASES[:3], case(8, None)], {"p": [1.0] * 4}) == []
    assert score_choices(CASES, {"p": [1.0, 2.0, 3.0, None]}) == []
