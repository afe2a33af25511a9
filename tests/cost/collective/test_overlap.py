from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.collective.constants import load_constants
from perfcast.cost.collective.overlap import exposed_seconds, overlapped_seconds

seconds = st.floats(0, 1e3)
HALF = replace(load_constants(), compute_slowdown=2.0, communication_slowdown=2.0)


def test_both_slow_down_while_both_run():
    assert overlapped_seconds(4, 1, HALF) == pytest.approx(2 + 4 - 1)
    assert overlapped_seconds(1, 4, HALF) == pytest.approx(2 + 4 - 1)


def test_what_a_hidden_collective_costs_is_what_it_slows_compute_down():
    assert exposed_seconds(4, 1, HALF) == pytest.approx(1)


@given(seconds, seconds)
def test_overlapping_takes_between_the_longer_and_the_slowed_sum(compute: float, communication: float):
    figures = load_constants()
    together = overlapped_seconds(compute, communication)
    slowed = compute * figures.compute_slowdown + communication * figures.communication_slowdown
    assert max(compute, communication) * (1 - 1e-12) <= together <= slowed * (1 + 1e-12)
    assert exposed_seconds(compute, communication) >= -1e-9
