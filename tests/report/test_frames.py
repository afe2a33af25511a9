"""Answers as tables."""

from dataclasses import dataclass

import pytest

from builders import small_forecast
from perfcast.report.answers import SUBJECTS, Answer
from perfcast.report.data.plan_memory import data_of as memory_data
from perfcast.report.data.plan_step import data_of as plan_data
from perfcast.report.data.serving.forecast import data_of as serving_data
from perfcast.report.data.serving.sweep import sweep_data_of
from perfcast.report.data.step import data_of as step_data
from perfcast.report.frames import frame_of
from plan_forecasts import plan_forecast
from serving_forecasts import sweep, with_both_forms


def test_a_step_is_a_table_of_its_operations():
    forecast = small_forecast()
    frame = frame_of(step_data(forecast))
    assert len(frame) == len(forecast.operations)
    assert frame["seconds"].sum() == pytest.approx(sum(one.seconds for one in forecast.operations))
    assert {"name", "flops", "memory_traffic_bytes", "bound_by"} <= set(frame.columns)


def test_a_plan_is_a_table_of_its_ranks_whose_causes_are_columns():
    frame = frame_of(plan_data(plan_forecast()))
    assert frame["rank"].to_list() == [0, 4]
    assert frame["seconds_by_cause.bubble"].to_list() == pytest.approx([0.003, 0.002])
    assert frame["seconds_by_cause.tensor"].to_list() == [None, pytest.approx(0.001)]


def test_terms_of_memory_keep_the_stage_and_the_moment_that_they_are_of():
    answer = memory_data(plan_forecast().memory)
    frame = frame_of(answer)
    assert frame.columns[:2] == ["stage", "moments.name"]
    of_one = next(m for m in answer.stages[0].moments if m.name == "optimizer")
    summed = frame.filter((frame["stage"] == 0) & (frame["moments.name"] == "optimizer"))["num_bytes"].sum()
    assert summed == of_one.memory_bytes


def test_a_deployment_is_a_table_of_figures_with_intervals_by_both_forms():
    frame = frame_of(serving_data(with_both_forms()))
    assert set(frame["method"]) == {"events", "closed_form"}
    assert (frame["low"] <= frame["value"]).all()
    assert "time_to_first_token_seconds.p99" in frame["figure"].to_list()


def test_points_of_a_sweep_are_rows_with_what_is_varied_first():
    frame = frame_of(sweep_data_of(sweep()))
    assert frame.columns[:3] == ["plan", "concurrency", "skipped"]
    assert len(frame) == 9
    assert frame["output_tokens_per_second"].null_count() == 1


def test_an_answer_without_a_table_is_one_row_of_its_figures():
    @dataclass(frozen=True, kw_only=True)
    class Alone(Answer):
        step_seconds: float
        parts: tuple[str, ...]

    frame = frame_of(Alone(step_seconds=2.0, parts=("a", "b")))
    assert frame.to_dicts() == [{"step_seconds": 2.0, "parts": ["a", "b"]}]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_path_of_every_table_begins_at_a_field_of_the_answer(subject):
    from importlib import import_module

    module, name = SUBJECTS[subject]
    kind = getattr(import_module(f"perfcast.report.data.{module}"), name)
    assert issubclass(kind, Answer)
    first = kind.table.partition(".")[0].partition("[")[0]
    assert not first or first in kind.__dataclass_fields__ or isinstance(getattr(kind, first), property)
