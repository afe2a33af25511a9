"""The profiler's start in the first recorded step. Times are microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.traces.events import Trace
from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.traces.timeline.startup import startup_pieces, without_startup
from perfcast.units import MICRO
from recorded_traces import Recording


def three_steps(folder: Path, *, starts: float = 0.0, second_thread: float = 0.0) -> Trace:
    """Three steps of 100, the first longer by two starts: behind its mark, and before a thread's first."""
    recording, at = Recording(), 0.0
    for number in (4, 5, 6):
        first, other = (starts, second_thread) if number == 4 else (0.0, 0.0)
        recording.step(number, at, 100 + first + other)
        recording.operator("aten::mm", at + 10 + first, 20)
        recording.operator("aten::relu", at + 40 + first, 10)
        recording.operator("autograd::engine::evaluate_function: Mm", at + 60 + first + other, 30, thread=2)
        at += 100 + first + other
    return recording.read(folder)


def test_both_starts_are_found_and_as_long_as_the_same_gaps_later(tmp_path: Path):
    trace = three_steps(tmp_path, starts=50, second_thread=30)
    (program,) = build_ranks([trace])
    found = [program.pieces[index].key[1] for index in startup_pieces(trace, program)]
    assert found == ["aten::mm", "autograd::engine::evaluate_function: Mm"]
    plain = without_startup(trace, program)
    saved = sum(p.seconds for p in program.pieces) - sum(p.seconds for p in plain.pieces)
    assert saved == pytest.approx(80 * MICRO)


def test_a_forecast_is_that_of_steps_without_a_start(tmp_path: Path):
    trace = three_steps(tmp_path, starts=50, second_thread=30)
    found = forecast_from_traces([trace], TraceForecastRequest())
    assert found.step_seconds == pytest.approx(100 * MICRO)
    assert found.measured_seconds == found.replayed_seconds == pytest.approx((100 + 80 / 3) * MICRO)


def test_a_gap_that_is_no_longer_than_later_ones_stays(tmp_path: Path):
    trace = three_steps(tmp_path)
    (program,) = build_ranks([trace])
    assert without_startup(trace, program).pieces == program.pieces


def test_a_step_alone_is_compared_with_others_or_left_as_it_is(tmp_path: Path):
    trace = three_steps(tmp_path, starts=50)
    (first,), (second,) = build_ranks([trace], [4]), build_ranks([trace], [5])
    assert without_startup(trace, first) == first
    assert sum(p.seconds for p in without_startup(trace, first, [second]).pieces) == pytest.approx(
        100 * MICRO
    )


def test_later_steps_have_no_start(tmp_path: Path):
    trace = three_steps(tmp_path, starts=50)
    assert startup_pieces(trace, build_ranks([trace], [5, 6])[0]) == ()
