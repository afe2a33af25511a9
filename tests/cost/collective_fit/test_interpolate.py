"""A curve through the points themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.collective_fit.interpolate import fit_interpolated, rising_medians

TIMES = st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=30)


def test_between_knots_time_is_affine():
    curve = fit_interpolated(np.array([100.0, 200.0, 400.0]), np.array([1.0, 2.0, 3.0]))
    assert curve.seconds(np.array([100.0, 150.0, 200.0, 300.0])).tolist() == [1.0, 1.5, 2.0, 2.5]


def test_an_affine_law_is_continued_to_both_sides():
    sizes = 2.0 ** np.arange(10, 20)
    curve = fit_interpolated(sizes, 1e-5 + sizes / 1e9)
    for size in (0.0, 1.0, 2.0**25):
        assert curve.seconds(np.array([size]))[0] == pytest.approx(1e-5 + size / 1e9)


def test_beyond_the_last_knot_no_byte_is_faster_than_the_last_knots_own():
    curve = fit_interpolated(np.array([1e6, 2e6, 4e6]), np.array([1e-3, 2e-3, 40e-3]))
    assert curve.beyond_bytes_per_second == pytest.approx(4e6 / 40e-3)


@given(TIMES)
def test_pooled_times_never_fall_and_rising_ones_stay(values: list[float]):
    assert np.all(np.diff(rising_medians(np.array(values))) >= 0)
    assert rising_medians(np.sort(values)).tolist() == sorted(values)


def test_one_disturbed_time_pulls_no_others_up():
    assert rising_medians(np.array([1.0, 90.0, 2.0, 3.0, 4.0])).tolist() == [1.0, 3.0, 3.0, 3.0, 4.0]


def test_bins_average_out_noise():
    sizes = np.geomspace(1e6, 1e9, 1000)
    exact = 1e-5 + sizes / 1e10
    noisy = exact * np.exp(0.2 * np.random.default_rng(0).standard_normal(1000))
    errors = [
        np.mean(np.abs(fit_interpolated(sizes, noisy, per_octave).seconds(sizes) / exact - 1))
        for per_octave in (None, 4)
    ]
    assert errors[1] < 0.04 < errors[0]
