"""A latency and a rate from measured times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.collective_fit.affine import Affine, fit_affine
from perfcast.errors import CalibrationError

SIZES = 2.0 ** np.arange(10, 27)


def test_seconds_are_latency_plus_bytes_over_rate():
    assert Affine(2e-6, 1e9).seconds(np.array([0.0, 1e3])).tolist() == [2e-6, pytest.approx(3e-6)]


@given(st.floats(1e-6, 1e-3), st.floats(1e7, 1e12))
def test_an_exact_line_is_found_again(latency: float, rate: float):
    line = fit_affine(SIZES, latency + SIZES / rate)
    assert line.latency_seconds == pytest.approx(latency, rel=1e-3, abs=SIZES[0] / rate * 1e-3)
    assert line.seconds(SIZES) == pytest.approx(latency + SIZES / rate, rel=1e-6)


@given(st.integers(0, 2**32 - 1))
def test_ten_percent_of_noise_moves_the_parameters_little(seed: int):
    sizes = np.geomspace(1e3, 1e9, 60)
    noise = np.exp(0.1 * np.random.default_rng(seed).standard_normal(60))
    line = fit_affine(sizes, (1e-5 + sizes / 1e10) * noise)
    assert line.latency_seconds == pytest.approx(1e-5, rel=0.12)
    assert line.bytes_per_second == pytest.approx(1e10, rel=0.12)


def test_one_disturbed_measurement_does_not_pull_the_line():
    seconds = 1e-5 + SIZES / 1e10
    seconds[5] *= 10
    line = fit_affine(SIZES, seconds)
    assert line.latency_seconds == pytest.approx(1e-5, rel=0.05)
    assert line.bytes_per_second == pytest.approx(1e10, rel=0.05)


def test_a_latency_below_zero_becomes_zero():
    sizes = np.array([1e6, 2e6, 4e6, 8e6])
    line = fit_affine(sizes, sizes**1.2 / 1e10)
    assert line.latency_seconds == 0.0
    assert line.bytes_per_second > 0


def test_a_negative_slope_is_refused():
    with pytest.raises(CalibrationError, match="negative slope"):
        fit_affine(SIZES, 1 / SIZES)
