from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.host.queue import exposed_host_seconds

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


def test_each_kernel_may_have_its_own_time_of_the_host():
    """Issued at 3, 4, 9; run 3 to 5, 5 to 7, 9 to 11: of 11 units the device works 6."""
    assert exposed_host_seconds(np.full(3, 2.0), np.array([3.0, 1.0, 5.0])) == pytest.approx(5.0)


@given(st.lists(st.tuples(st.floats(0, 1e-3), st.floats(0, 1e-3)), min_size=1, max_size=20))
def test_times_of_their_own_are_played_as_the_queue_says(pairs: list[tuple[float, float]]):
    kernels, hosts = (np.array(column) for column in zip(*pairs, strict=True))
    issued = end = 0.0
    for kernel, host in pairs:
        issued += host
        end = max(end, issued) + kernel
    assert exposed_host_seconds(kernels, hosts) == pytest.approx(max(end - kernels.sum(), 0.0), abs=1e-12)
