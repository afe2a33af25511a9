"""What is said of a plan, and of the way from one plan to another."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.forecast.plan import CAUSES, RankTime, StepTime
from perfcast.core.plan import Plan
from perfcast.errors import PlanError
from perfcast.searches.report.explain import RESERVE, differing_dimensions, explain_difference, explain_plan
from plan_forecasts import PLAN, plan_forecast


def forecast_of(plan: Plan, **milliseconds: float):
    causes = {cause: value / 1000 for cause, value in milliseconds.items()}
    return plan_forecast(plan=plan, time=StepTime(sum(causes.values()), (RankTime(0, 0, 8, causes),)))


def test_causes_add_up_to_the_step_and_categories_to_what_the_device_holds():
    found = explain_plan(plan_forecast(), "winner")
    assert sum(found.seconds_by_cause.values()) == pytest.approx(found.forecast.step_seconds)
    memory = found.forecast.memory
    assert memory is not None
    assert sum(found.bytes_by_category.values()) == memory.footprint.device_bytes
    assert found.bytes_by_category[RESERVE] > 0


def test_a_program_without_a_plan_has_nothing_to_explain():
    with pytest.raises(PlanError, match="has no plan to explain"):
        explain_plan(plan_forecast(plan=None), "mine")


def test_differences_name_the_dimensions_that_a_cause_depends_on():
    # tp 2 → 1 and dp 2 → 4: 3 ms of tensor communication go, 1 ms of data communication comes; 10 ms become
    # 8.
    first = explain_plan(forecast_of(PLAN, compute=6, tensor=3, data=1), "winner")
    other = replace(PLAN, tensor_parallel=1, data_parallel=4)
    found = explain_difference(first, explain_plan(forecast_of(other, compute=6, data=2), "mine"))
    assert found.seconds == pytest.approx(-0.002)
    assert found.dimensions == ("tp=2 → tp=1", "dp=2 → dp=4")
    assert [(c.name, round(c.difference * 1000)) for c in found.causes] == [
        ("tensor", -3), ("data", 1), ("compute", 0)
    ]  # fmt: skip
    assert found.causes[0].because == ("tp=2 → tp=1",)
    assert found.causes[1].because == ("dp=2 → dp=4", "tp=2 → tp=1")
    assert found.sentences == (
        "mine is 20.0 % faster than winner",
        "30.0 % of the step less for tensor-parallel communication (tp=2 → tp=1)",
        "10.0 % of the step more for data-parallel communication (dp=2 → dp=4, tp=2 → tp=1)",
    )


def test_equal_plans_differ_in_nothing():
    one = explain_plan(plan_forecast(), "winner")
    found = explain_difference(one, one)
    assert (found.dimensions, found.seconds) == ((), 0)
    assert {change.difference for change in (*found.causes, *found.categories)} == {0}


milliseconds = st.dictionaries(st.sampled_from(CAUSES), st.floats(0.01, 100), min_size=1)


@given(milliseconds, milliseconds)
def test_differences_of_causes_add_up_to_that_of_the_steps_and_turn_with_the_order(before, after):
    first = explain_plan(forecast_of(PLAN, **before), "a")
    second = explain_plan(forecast_of(PLAN, **after), "b")
    there, back = explain_difference(first, second), explain_difference(second, first)
    assert sum(change.difference for change in there.causes) == pytest.approx(there.seconds, abs=1e-9)
    turned = {change.name: -change.difference for change in back.causes}
    assert {change.name: change.difference for change in there.causes} == pytest.approx(turned)


def test_words_flags_and_lists_are_said_as_the_plan_option_takes_them():
    plan = Plan(pipeline_parallel=2, stage_layers=(3, 1), sequence_parallel=True, recompute="full")
    found = differing_dimensions(Plan(), plan)
    assert found == {
        "pipeline_parallel": "pp=1 → pp=2", "sequence_parallel": "sp=0 → sp=1",
        "recompute": "recompute=none → recompute=full", "stage_layers": "stages=even → stages=3/1",
    }  # fmt: skip
