from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.launch import exposed_host_seconds

durations = st.lists(st.floats(0, 1e-3), min_size=1, max_size=20).map(np.array)


def simulate(kernels: np.ndarray, host: float) -> float:
    """The queue, kernel by kernel."""
    end = 0.0
    for index, seconds in enumerate(kernels):
        end = max(end, index * host) + seconds
    return end


def test_long_kernels_hide_the_host():
    assert exposed_host_seconds(np.full(10, 1e-3), 1e-5) == 0.0


def test_short_kernels_run_at_the_hosts_pace():
    exposed = exposed_host_seconds(np.full(100, 1e-6), 8e-6)
    assert exposed == pytest.approx(99 * 8e-6 + 1e-6 - 100e-6)


def test_a_long_kernel_lets_the_host_run_ahead():
    kernels = np.array([1e-6, 100e-6, *[1e-6] * 10])
    assert exposed_host_seconds(kernels, 8e-6) == pytest.approx(7e-6)


def test_without_kernels_or_without_a_host_nothing_is_exposed():
    assert exposed_host_seconds(np.zeros(0), 1e-5) == 0.0
    assert exposed_host_seconds(np.ones(3), 0.0) == 0.0


@given(durations, st.floats(0, 1e-4))
def test_it_is_what_a_simulation_of_the_queue_says(kernels: np.ndarray, host: float):
    expected = simulate(kernels, host) - kernels.sum()
    assert exposed_host_seconds(kernels, host) == pytest.approx(max(expected, 0.0), abs=1e-12)
