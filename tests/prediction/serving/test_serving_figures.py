"""Figures of runs that can be followed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.serving.outcome import Occupancy, Played
from perfcast.prediction.serving.figures import Places, figures_of, mean_running, quantiles, stretched

PLACES = Places(engines=1, all_engines=1, sequences=4, kv_tokens=1000)


def played(**changes: Any) -> Played:
    """Two requests of three tokens each, one second after another, both of four seconds."""
    values: dict[str, Any] = {
        "sent_seconds": np.array([0.0, 1.0]),
        "started_seconds": np.array([0.0, 1.0]),
        "first_token_seconds": np.array([2.0, 2.5]),
        "finished_seconds": np.array([4.0, 5.0]),
        "answer_tokens": np.array([3, 3]),
        "prompt_tokens": np.array([10, 20]),
        "preemptions": np.array([0, 0]),
        "replica": np.array([0, 0]),
        "num_steps": 6,
        "busy_seconds": 4.0,
        "seconds_by_bound": {"compute": 1.0, "memory": 3.0},
        "occupancy": Occupancy(
            np.array([0.0, 1.0, 4.0, 5.0]),
            np.array([1, 2, 1, 0]),
            np.array([0, 0, 0, 0]),
            np.array([10, 30, 20, 0]),
        ),
        "measured_from_seconds": 0.0,
        "measured_to_seconds": 5.0,
    }
    return Played(**(values | changes))


def test_latencies_are_of_requests_and_rates_of_the_window():
    found = figures_of(played(), PLACES)
    assert (found.time_to_first_token.mean, found.time_to_first_token.median) == (1.75, 1.75)
    assert found.time_per_output_token.mean == pytest.approx((1.0 + 1.25) / 2)
    assert found.end_to_end.p99 == pytest.approx(4.0)
    assert found.requests_per_second == pytest.approx(2 / 5)
    assert found.output_tokens_per_second == pytest.approx(6 / 5)
    assert found.input_tokens_per_second == pytest.approx(30 / 5)


def test_only_requests_that_ended_in_the_window_are_of_it():
    found = figures_of(played(measured_to_seconds=4.0), PLACES)
    assert found.requests_per_second == pytest.approx(1 / 4)
    assert found.time_to_first_token.mean == 2.0


def test_what_runs_is_a_mean_over_time():
    assert mean_running(played()) == pytest.approx((1 + 2 * 3 + 1) / 5)


def test_of_two_pools_the_batch_is_of_those_that_are_written():
    two = Places(engines=1, all_engines=3, sequences=4, kv_tokens=1000)
    assert figures_of(played(), two).mean_batch == pytest.approx((2.0 + 2.5) / 5)
    assert figures_of(played(), PLACES).mean_batch == pytest.approx(8 / 5)


def test_idle_engines_wait_for_requests_and_busy_ones_for_what_bounds_their_steps():
    found = figures_of(played(), PLACES).bound_by
    assert found == pytest.approx({"queue": 0.2, "compute": 0.2, "memory": 0.6})


def test_places_beside_which_requests_wait_while_the_cache_is_full_wait_for_memory():
    full = Occupancy(np.array([0.0, 2.5]), np.array([2, 2]), np.array([1, 1]), np.array([950, 100]))
    found = figures_of(played(occupancy=full, busy_seconds=5.0), PLACES).bound_by
    assert found["kv_memory"] == pytest.approx(0.5)
    assert sum(found.values()) == pytest.approx(1.0)


def test_answers_of_one_token_have_no_time_of_a_further_one():
    single = played(answer_tokens=np.array([1, 1]), finished_seconds=np.array([2.0, 2.5]))
    assert figures_of(single, PLACES).time_per_output_token.mean == 0.0
    assert quantiles(np.array([np.nan, 1.0])).mean == 1.0


@given(factor=st.floats(0.1, 10.0))
def test_a_stretched_run_has_stretched_latencies_and_shrunk_rates(factor):
    usual = figures_of(played(), PLACES)
    found = figures_of(stretched(played(), factor), PLACES)
    assert found.end_to_end.p90 == pytest.approx(usual.end_to_end.p90 * factor)
    assert found.output_tokens_per_second == pytest.approx(usual.output_tokens_per_second / factor)
    assert found.mean_batch == pytest.approx(usual.mean_batch)
    assert found.bound_by == pytest.approx(usual.bound_by)
