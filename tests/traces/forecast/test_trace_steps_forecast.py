"""Steps one by one: what each does, how they differ, and a forecast that begins as the recording did."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.interval import steps_half_width
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.steps import kinds_of
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import MICRO
from recorded_traces import Recording


def test_steps_are_of_one_kind_if_hardly_an_operator_differs():
    usual = Counter({"mm": 100, "add": 50})
    jitter = Counter({"mm": 100, "add": 51})
    logging = Counter({"mm": 100, "add": 50, "item": 12})
    assert kinds_of([usual, jitter, logging, usual, logging]) == [0, 0, 1, 0, 1]


def unlike_steps(rank: int = 0) -> Recording:
    """Four steps of a processor; the second and the fourth take 100 µs more, to log."""
    recording, at = Recording(rank, 2), 0.0
    for number in (7, 8, 9, 10):
        logs = number in (8, 10)
        length = 500 if logs else 400
        recording.step(number, at, length)
        for place in range(4):
            recording.operator("aten::mm", at + 100 * place, 90)
        if logs:
            recording.operator("aten::item", at + 400, 90)
        at += length
    return recording


def test_each_step_is_forecast_by_what_it_does_and_the_interval_holds_all(tmp_path: Path):
    found = forecast_from_traces([unlike_steps().read(tmp_path)], TraceForecastRequest())
    assert [step.number for step in found.steps] == [7, 8, 9, 10]
    assert [step.kind for step in found.steps] == [0, 1, 0, 1]
    assert [step.num_operators for step in found.steps] == [4, 5, 4, 5]
    assert [step.seconds for step in found.steps] == pytest.approx([4e-4, 5e-4, 4e-4, 5e-4], rel=1e-3)
    assert found.step_seconds_low < 4e-4 < 5e-4 < found.step_seconds_high
    said = " ".join(found.assumptions)
    assert "steps do 2 different things: 7, 9 (4 operators" in said
    one_kind = forecast_from_traces([unlike_steps().read(tmp_path)], TraceForecastRequest(steps=range(8, 9)))
    assert one_kind.step_seconds == pytest.approx(5e-4)


def test_the_recorded_step_is_that_of_the_rank_that_took_longest_in_it(tmp_path: Path):
    traces = []
    for rank in range(2):
        recording = Recording(rank, 2)
        for number in range(2):
            long = 100 + (40 if number == rank else 0)
            recording.step(number, 200 * number, long)
            recording.operator("aten::mm", 200 * number, long)
        traces.append(recording.read(tmp_path))
    found = forecast_from_traces(traces, TraceForecastRequest())
    assert [step.recorded_seconds for step in found.steps] == pytest.approx([140 * MICRO] * 2)
    assert found.measured_seconds == pytest.approx(140 * MICRO)


def filling_queue() -> Recording:
    """Three steps of a host that runs ahead: each launches 300 µs of work; only the last one waits."""
    recording, free = Recording(), 0.0
    for number in range(3):
        at, length = 100.0 * number, 100.0 if number < 2 else 715.0
        recording.step(number, at, length)
        recording.operator("aten::mm", at, 40)
        recording.call("cudaLaunchKernel", at + 5, 5, number + 1)
        start = max(at + 12, free)
        recording.kernel("gemm", start, 300, number + 1)
        free = start + 300
    recording.operator("aten::item", 250, 660)
    recording.call("cudaStreamSynchronize", 252, free - 252, 9)
    return recording


def test_a_step_begun_as_recorded_is_the_recorded_one_and_the_long_run_is_the_devices(tmp_path: Path):
    trace = filling_queue().read(tmp_path)
    (program,) = build_ranks([trace], [2])
    assert len(program.works) == 2 + 1  # two of them still ran
    found = forecast_from_traces([trace], TraceForecastRequest(steps=range(2, 3)))
    assert found.once_seconds == pytest.approx(found.measured_seconds, rel=1e-3)
    assert found.once_seconds_low < found.measured_seconds < found.once_seconds_high
    assert found.step_seconds < found.measured_seconds / 1.5
    # The device's work of a step is what it launched, not what still ran.
    assert found.device_seconds_before == pytest.approx(300 * MICRO)


def test_alike_steps_of_unlike_times_widen_the_interval(tmp_path: Path):
    trace = filling_queue().read(tmp_path)
    found = forecast_from_traces([trace], TraceForecastRequest())
    took = [step.recorded_seconds for step in found.steps]
    assert max(took) > 5 * min(took)
    assert found.step_seconds_high / found.step_seconds == pytest.approx(1 + steps_half_width(took))
