"""A bandwidth that rises between two knees, without jumps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.cost.collective_fit.sigmoid import Sigmoid, find_knees, fit_sigmoid
from perfcast.errors import CalibrationError

SIZES = 2.0 ** np.arange(8, 31)
CURVE = Sigmoid(4.0, 0.28, 17.0, 7.0, 2.0**12, 2.0**26, 9e10)


def sigmoids() -> st.SearchStrategy[Sigmoid]:
    """Height · steepness below 4 / log₂ 10, where time would begin to fall; no slower beyond than before."""

    def build(height: float, share: float, centre: float, base: float, gain: float) -> Sigmoid:
        knees = (2.0**12, 2.0**26)
        curve = Sigmoid(height, share * 1.2 / height, centre, base, *knees, 1.0)
        rate = float(knees[1] / curve.seconds(np.array(knees[1])))
        return replace(curve, beyond_bytes_per_second=rate * gain)

    ranges = [(1.0, 5.0), (0.4, 1.0), (15.0, 21.0), (5.0, 8.0), (1.0, 1.5)]
    return st.builds(build, *(st.floats(*ends) for ends in ranges))


def test_between_the_knees_the_bandwidth_follows_the_formula():
    size = 2.0**17  # the centre: half the height
    assert CURVE.seconds(np.array([size]))[0] == pytest.approx(size / 10 ** (7.0 + 4.0 / 2))


@given(sigmoids())
def test_time_is_constant_below_and_never_jumps(curve: Sigmoid):
    assert curve.seconds(np.array([1.0]))[0] == curve.seconds(np.array([2.0**12]))[0]
    for knee in (2.0**12, 2.0**26):
        below, at, above = curve.seconds(knee * np.array([1 - 1e-9, 1.0, 1 + 1e-9]))
        assert below == pytest.approx(at, rel=1e-6)
        assert above == pytest.approx(at, rel=1e-6)


@given(sigmoids())
def test_time_never_falls(curve: Sigmoid):
    assert np.all(np.diff(curve.seconds(np.geomspace(1, 1e11, 500))) >= -1e-18)


@settings(max_examples=6, deadline=None)
@given(sigmoids())
def test_an_exact_sigmoid_is_found_again_within_some_percent(curve: Sigmoid):
    seconds = curve.seconds(SIZES)
    fitted = fit_sigmoid(SIZES, seconds)
    assert np.mean(np.abs(fitted.seconds(SIZES) / seconds - 1)) < 0.06


def test_a_sigmoid_as_steep_as_measured_ones_is_found_again():
    seconds = CURVE.seconds(SIZES)
    assert np.mean(np.abs(fit_sigmoid(SIZES, seconds).seconds(SIZES) / seconds - 1)) < 0.01


def test_the_knees_are_where_time_begins_to_rise_and_bandwidth_stops():
    first, second = find_knees(SIZES, CURVE.seconds(SIZES))
    assert 2.0**11 <= SIZES[first] <= 2.0**14
    assert SIZES[second] >= 2.0**24


def test_too_few_sizes_between_the_knees_are_refused():
    sizes = np.array([1e9, 2e9, 4e9])
    with pytest.raises(CalibrationError, match="between the knees"):
        fit_sigmoid(sizes, sizes / 1e11)
