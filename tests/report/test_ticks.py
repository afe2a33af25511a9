from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.report.figure import Axis
from perfcast.report.ticks import axis_ticks, axis_unit_size, linear_places, log_places, prefixed

POSITIVE = st.floats(1e-9, 1e12)


@given(POSITIVE, st.floats(1.05, 1e9), st.integers(3, 12))
def test_a_logarithmic_axis_has_at_least_two_marks_all_on_it(low: float, factor: float, most: int) -> None:
    high = low * factor
    places = log_places(low, high, most)
    assert len(places) >= 2
    assert places == sorted(places)
    assert all(low * (1 - 1e-6) <= place <= high * (1 + 1e-6) for place in places)
    assert len(places) <= 2 * most + 1


@given(st.floats(-1e6, 1e6), st.floats(1e-1, 1e9), st.integers(3, 12))
def test_marks_of_a_linear_axis_are_evenly_spaced_round_and_about_as_many_as_wanted(
    low: float, span: float, most: int
) -> None:
    places = linear_places(low, low + span, most)
    assert most / 3 - 1 <= len(places) <= 1.5 * most + 2
    steps = {f"{after - before:.1g}" for before, after in pairwise(places)}
    assert len(steps) <= 1


def test_a_decade_that_holds_no_power_of_ten_is_marked_between() -> None:
    assert log_places(3.0, 15.0, 6) == [3.0, 5.0, 7.0, 10.0, 15.0]
    assert log_places(1.0, 1e6, 8) == [10.0**power for power in range(7)]
    assert log_places(1.0, 1e6, 4) == [1.0, 100.0, 1e4, 1e6]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.02, "s", "20 ms"),
        (1e14, "FLOP/s", "100 TFLOP/s"),
        (0.0, "s", "0"),
        (2.5e-7, "s", "250 ns"),
        (1500.0, "", "1.5 k"),
    ],
)
def test_marks_have_a_decimal_prefix(value: float, unit: str, text: str) -> None:
    assert prefixed(value, unit) == text


def test_bytes_are_marked_in_the_binary_unit_and_shares_in_percent() -> None:
    memory = Axis(unit="B")
    size = axis_unit_size(memory, [3 * 2.0**30])
    assert axis_ticks(memory, 0.0, 3 * 2.0**30, size, 3) == [(at * 2.0**30, str(at)) for at in range(4)]
    assert axis_ticks(Axis(unit="share"), 0.0, 1.0, 1.0, 2)[1] == (0.5, "50 %")


def test_own_marks_stay_where_they_are_on_the_axis() -> None:
    axis = Axis(ticks=((1.0, "one"), (5.0, "five")))
    assert axis_ticks(axis, 0.0, 2.0, 1.0, 4) == [(1.0, "one")]
