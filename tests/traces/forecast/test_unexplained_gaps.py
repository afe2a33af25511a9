"""Pauses of a device without a cause, in a recording by hand. Times are microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.traces.events import Trace
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.what_if import parse_what_if
from perfcast.units import MICRO
from recorded_traces import Recording


def paused(folder: Path, pause: float) -> Trace:
    """Five kernels of 50 µs, launched at once; the last starts long after the one before it has ended."""
    recording = Recording()
    recording.step(1, 0, 400 + pause)
    start = 20.0
    for number in range(5):
        recording.operator("aten::mm", 10 * number, 8)
        recording.call("cudaLaunchKernel", 10 * number + 2, 5, number + 1)
        start += pause if number == 4 else 0
        recording.kernel("gemm", start, 50, number + 1)
        start += 51
    recording.call("cudaDeviceSynchronize", 60, start - 60 + 2, 9)
    return recording.read(folder)


def forecast(trace: Trace, *words: str) -> TraceForecast:
    return forecast_from_traces([trace], TraceForecastRequest(changes=parse_what_if(words)))


def test_a_pause_without_a_cause_is_named_and_kept(tmp_path: Path):
    found = forecast(paused(tmp_path, 1000))
    (gap,) = found.unexplained
    assert gap.before == "gemm"
    assert gap.seconds == pytest.approx(1000 * MICRO, abs=5 * MICRO)
    assert found.unexplained_seconds == gap.seconds
    assert found.speedup == 1.0
    assert any(note.startswith("unexplained: ") and "low end" in note for note in found.assumptions)


def test_where_something_is_changed_the_low_end_is_without_it(tmp_path: Path):
    trace = paused(tmp_path, 1000)
    before, after = forecast(trace), forecast(trace, "host=1000", "communication=1000")
    assert after.step_seconds > 1000 * MICRO
    assert after.step_seconds_low < 500 * MICRO < before.step_seconds_low


def test_without_pauses_nothing_is_said(tmp_path: Path):
    found = forecast(paused(tmp_path, 0))
    assert found.unexplained == ()
    assert not any(note.startswith("unexplained") for note in found.assumptions)


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ((), "host times are as recorded"),
        (("communication=2",), "host times are as recorded"),
        (("host=2",), "host times are as recorded, and then divided by 2"),
    ],
)
def test_host_times_are_said_to_be_what_they_are(tmp_path: Path, words: tuple[str, ...], note: str):
    assert forecast(paused(tmp_path, 0), *words).assumptions[0] == note
