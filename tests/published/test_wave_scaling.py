"""Habitat's wave scaling, by hand and by law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.published.habitat.wave_scaling import Machine, memory_boundedness, scale_waves

machines = st.builds(
    Machine,
    st.floats(1e11, 1e13),
    st.floats(5e8, 3e9),
    st.integers(1, 200),
    st.floats(1e12, 1e14),
)
ORIGIN, TARGET = Machine(100e9, 1e9, 10, 1e12), Machine(200e9, 2e9, 20, 4e12)  # ridge of the target: 20


def test_gamma_is_one_without_arithmetic_a_half_at_the_ridge_and_falls_beyond():
    gamma = memory_boundedness(np.array([0.0, 10.0, 20.0, 40.0]), TARGET)
    assert gamma.tolist() == [1.0, 0.75, 0.5, 0.25]


def test_a_kernel_without_arithmetic_scales_by_bandwidth_alone():
    assert scale_waves(np.array([3.0]), np.array([0.0]), ORIGIN, TARGET).tolist() == [1.5]


def test_at_the_ridge_both_ratios_count_half():
    seconds = scale_waves(np.array([1.0]), np.array([20.0]), ORIGIN, TARGET)
    assert seconds[0] == pytest.approx((1 / 2) ** 0.5 * (1 / 4) ** 0.5)


@given(machines, st.floats(0, 1e4), st.floats(1e-6, 1.0))
def test_a_device_scales_to_itself_unchanged(machine: Machine, intensity: float, seconds: float):
    scaled = scale_waves(np.array([seconds]), np.array([intensity]), machine, machine)
    assert scaled[0] == pytest.approx(seconds)


@given(machines, st.floats(0, 1e4))
def test_gamma_stays_in_its_range(machine: Machine, intensity: float):
    assert 0 <= memory_boundedness(np.array([intensity]), machine)[0] <= 1
