"""The choice between forms, and the laws that every fitted curve keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.cost.collective_fit import fit_curve
from perfcast.cost.collective_fit.sigmoid import Sigmoid
from perfcast.errors import CalibrationError

SIZES = 2.0 ** np.arange(10, 27)
EVERYWHERE = np.geomspace(1, 1e11, 300)


@st.composite
def noisy_sweeps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Affine times with up to 30 % of noise, at some of the sizes."""
    sizes = np.array(sorted(draw(st.sets(st.sampled_from(SIZES.tolist()), min_size=6))))
    latency, rate = draw(st.floats(1e-6, 1e-3)), draw(st.floats(1e8, 1e11))
    noise = draw(st.lists(st.floats(0.7, 1.3), min_size=len(sizes), max_size=len(sizes)))
    return sizes, (latency + sizes / rate) * noise


@settings(max_examples=8, deadline=None)
@given(noisy_sweeps())
def test_a_curve_is_positive_and_never_falls(sweep: tuple[np.ndarray, np.ndarray]):
    try:
        curve = fit_curve(*sweep)
    except CalibrationError:
        return  # noise alone made the times of a short sweep fall
    seconds = curve.seconds(EVERYWHERE)
    assert np.all(seconds > 0)
    assert np.all(np.isfinite(seconds))
    assert np.all(np.diff(seconds) >= -1e-15)


@settings(max_examples=8, deadline=None)
@given(noisy_sweeps(), st.floats(1e-3, 1e3))
def test_times_in_another_unit_give_the_same_curve_in_that_unit(
    sweep: tuple[np.ndarray, np.ndarray], factor: float
):
    sizes, seconds = sweep
    try:
        curve = fit_curve(sizes, seconds)
    except CalibrationError:
        return
    scaled = fit_curve(sizes, seconds * factor)
    assert scaled.seconds(sizes) == pytest.approx(factor * curve.seconds(sizes), rel=0.02)


@given(st.floats(1e-6, 1e-3), st.floats(1e8, 1e11))
@settings(max_examples=5, deadline=None)
def test_affine_data_are_recovered_exactly_and_called_affine(latency: float, rate: float):
    curve = fit_curve(SIZES, latency + SIZES / rate)
    assert curve.form_name == "affine"
    assert curve.held_out_mape < 1e-6
    assert curve.seconds(3 * SIZES) == pytest.approx(latency + 3 * SIZES / rate, rel=1e-5)


def test_every_curve_has_its_line_and_how_well_that_fits():
    exact = fit_curve(SIZES, 2e-5 + SIZES / 4e9).line
    assert (exact.latency_seconds, exact.bytes_per_second) == pytest.approx((2e-5, 4e9), rel=1e-6)
    assert (exact.r_squared, exact.mape) == pytest.approx((1.0, 0.0), abs=1e-6)
    sizes = np.geomspace(1e3, 1e8, 100)
    steps = fit_curve(sizes, np.where(sizes < 1e5, 1e-5 + sizes / 1e10, 1e-4 + sizes / 1e11))
    assert steps.form_name == "interpolated"
    assert steps.line.mape > 3 * steps.mape


def test_a_sigmoid_is_recovered_between_its_knees():
    truth = Sigmoid(4.0, 0.28, 17.0, 7.0, 2.0**12, 2.0**26, 9e10)
    curve = fit_curve(SIZES, truth.seconds(SIZES))
    between = 2.0 ** np.linspace(12, 26, 57)
    assert np.mean(np.abs(curve.seconds(between) / truth.seconds(between) - 1)) < 0.02


def test_a_change_of_algorithm_in_the_middle_is_followed():
    sizes = np.geomspace(1e3, 1e8, 100)
    seconds = np.where(sizes < 1e5, 1e-5 + sizes / 1e10, np.where(sizes < 1e6, 4e-5, 1e-4 + sizes / 1e11))
    curve = fit_curve(sizes, seconds)
    assert curve.form_name == "interpolated"
    assert curve.mape < 0.03


def test_ten_percent_of_noise_costs_about_as_much():
    sizes = np.geomspace(1e3, 1e8, 400)
    exact = 2e-5 + sizes / 5e9
    noise = np.exp(0.1 * np.random.default_rng(0).standard_normal(400))
    curve = fit_curve(sizes, exact * noise)
    assert np.mean(np.abs(curve.seconds(sizes) / exact - 1)) < 0.03
    assert 0.06 < curve.held_out_mape < 0.10


def test_repeats_of_a_size_count_by_their_median():
    sizes = np.repeat(SIZES, 3)
    seconds = (1e-5 + sizes / 1e9) * np.tile([1.0, 1.0, 50.0], len(SIZES))
    curve = fit_curve(sizes, seconds)
    assert curve.count == len(SIZES)
    assert curve.seconds(SIZES) == pytest.approx(1e-5 + SIZES / 1e9)


def test_order_does_not_matter():
    order = np.random.default_rng(0).permutation(len(SIZES))
    seconds = 1e-5 + SIZES**0.9 / 1e9
    assert fit_curve(SIZES[order], seconds[order]) == fit_curve(SIZES, seconds)


def test_fewer_than_four_sizes_are_refused():
    with pytest.raises(CalibrationError, match="3 different message sizes are too few"):
        fit_curve([1, 1, 2, 3], [1.0, 1.0, 2.0, 3.0])


def test_times_that_fall_are_refused():
    with pytest.raises(CalibrationError, match="negative slope"):
        fit_curve(SIZES, 1 / SIZES)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_not_one_is_refused(bad: float):
    with pytest.raises(CalibrationError, match="cannot be fitted"):
        fit_curve([1, 2, 3, 4], [1.0, 2.0, 3.0, bad])


def test_sizes_and_times_must_belong_together():
    with pytest.raises(CalibrationError, match="do not belong together"):
        fit_curve([1, 2, 3, 4], [1.0])
