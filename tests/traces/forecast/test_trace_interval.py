"""How sure a step forecast from a recording is, by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.devices import load_device
from perfcast.cost.roofline import Roofline
from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.interval import (
    CHANGE_SHARE,
    DEVIATION,
    PRIOR_STEPS,
    join_ends,
    steps_half_width,
)
from perfcast.traces.forecast.ratios import Side
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.what_if import parse_what_if
from recorded_traces import two_kernels


def test_one_recorded_step_is_as_sure_as_those_of_other_recordings():
    student = 2.353  # 95th percentile, three degrees of freedom
    assert steps_half_width([0.2]) == pytest.approx(student * DEVIATION * math.sqrt(2), rel=0.03)


def test_steps_that_differ_widen_by_students_law():
    student, squares = 2.015, 2 * 0.1**2  # five degrees of freedom; steps of 0.9, 1.0 and 1.1
    deviation = math.sqrt((PRIOR_STEPS * DEVIATION**2 + squares) / (PRIOR_STEPS + 2))
    assert steps_half_width([0.9, 1.0, 1.1]) == pytest.approx(
        student * deviation * math.sqrt(4 / 3), rel=0.01
    )


def test_what_errs_apart_joins_as_the_root_of_squares():
    own = math.log1p(steps_half_width([1.0]))
    low, high = join_ends(2.0, 1.0, 4.0, steps_half_width([1.0]), change=math.log(8))
    below = math.sqrt(own**2 + math.log(2) ** 2 + (CHANGE_SHARE * math.log(8)) ** 2)
    assert (low, high) == (pytest.approx(2 * math.exp(-below)), pytest.approx(2 * math.exp(below)))


@given(
    st.floats(1e-3, 10), st.floats(0.1, 1), st.floats(1, 10),
    st.lists(st.floats(0.5, 2), min_size=1, max_size=6), st.floats(-2, 2),
)  # fmt: skip
def test_an_interval_has_a_width_and_holds_the_forecast_and_the_prices_ends(
    middle: float, low: float, high: float, steps: list[float], change: float
):
    ends = join_ends(middle, low * middle, high * middle, steps_half_width(steps), change)
    assert ends[0] < min(middle, low * middle * (1 + 1e-9))
    assert ends[1] > max(middle, high * middle * (1 - 1e-9))


def test_every_forecast_from_a_recording_has_a_width_and_a_change_or_another_device_widens_it(tmp_path: Path):
    trace = two_kernels().read(tmp_path)
    sides = [Side(load_device(name), Roofline(), "") for name in ("a100-sxm-80gb", "h100-sxm")]
    widths = []
    for request in (
        TraceForecastRequest(),
        TraceForecastRequest(changes=parse_what_if(["host=2"])),
        TraceForecastRequest(before=sides[0], after=sides[1]),
    ):
        found = forecast_from_traces([trace], request)
        assert found.step_seconds_low < found.step_seconds < found.step_seconds_high
        widths.append(found.step_seconds_high / found.step_seconds_low)
    plain, changed, elsewhere = widths
    assert plain == pytest.approx((1 + steps_half_width([1.0])) ** 2)
    assert plain < changed < elsewhere
