from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.interval import (
    COMPILED_STEP_ERROR,
    STEP_ERROR,
    StepError,
    join_intervals,
    step_error_of_device,
)
from perfcast.cost.model import Estimates


def estimates(seconds: list[float], width: float, tag: str) -> Estimates:
    each = np.array(seconds)
    count = len(seconds)
    return Estimates(each, each * (1 - width), each * (1 + width), ("memory",) * count, (tag,) * count)


def upper(seconds: list[float], counts: list[int], kinds: list[str], width: float, tag: str) -> float:
    return join_intervals(estimates(seconds, width, tag), np.array(counts), kinds)[1]


def test_bounds_add_up_since_they_all_err_one_way():
    low, high = join_intervals(estimates([1.0, 2.0], 0.5, "bounded"), np.array([1, 2]), ["a", "b"])
    assert (low, high) == pytest.approx((2.5, 7.5))


def test_the_upper_half_width_is_the_formulas():
    high = upper([1.0, 1.0], [1, 1], ["matmul", "softmax"], 0.4, "extrapolated")
    together = 2 * (math.sqrt(0.5) * 0.4) ** 2
    apart = 2 * 0.5 * 0.4**2
    assert high == pytest.approx(2 + math.sqrt(together + apart + (STEP_ERROR * 2) ** 2))


def test_a_compiled_step_is_less_sure_than_an_eager_one():
    asked = estimates([1.0], 0.1, "interpolated"), np.array([1]), ["matmul"]
    eager, compiled = join_intervals(*asked), join_intervals(*asked, COMPILED_STEP_ERROR)
    assert compiled[0] < eager[0]
    assert compiled[1] > eager[1]


def test_errors_of_one_kind_add_more_than_errors_of_two():
    same = upper([1.0, 1.0], [1, 1], ["matmul", "matmul"], 0.4, "extrapolated")
    different = upper([1.0, 1.0], [1, 1], ["matmul", "softmax"], 0.4, "extrapolated")
    assert same > different


def test_a_measured_device_errs_less_together_than_one_never_measured():
    seconds, counts, kinds = [1.0] * 8, [1] * 8, ["matmul"] * 8
    assert upper(seconds, counts, kinds, 0.4, "interpolated") < upper(
        seconds, counts, kinds, 0.4, "extrapolated"
    )


def test_runs_of_one_operation_err_alike():
    repeated = upper([1.0], [4], ["matmul"], 0.4, "interpolated")
    different = upper([1.0] * 4, [1] * 4, ["matmul"] * 4, 0.4, "interpolated")
    assert repeated > different


def test_a_step_without_operations_takes_no_time():
    assert join_intervals(estimates([], 0.1, "extrapolated"), np.zeros(0, np.int64), []) == (0.0, 0.0)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=9), st.floats(0.01, 0.9))
def test_the_interval_holds_the_estimate_and_is_no_wider_than_the_sum(seconds: list[float], width: float):
    counts, kinds = np.ones(len(seconds), np.int64), ["matmul"] * len(seconds)
    low, high = join_intervals(estimates(seconds, width, "extrapolated"), counts, kinds)
    total = sum(seconds)
    assert 0 <= low < total < high
    assert high <= total * (1 + math.hypot(width, STEP_ERROR)) * (1 + 1e-9)


def test_where_nothing_of_a_vendor_was_measured_all_kernels_err_as_one_and_collectives_by_themselves():
    each = np.array([1.0, 1.0, 1.0])
    tags = ("extrapolated", "extrapolated", "datasheet")

    def high(errs_as_one: bool) -> float:
        priced = Estimates(each, 0.6 * each, 1.4 * each, ("",) * 3, tags, errs_as_one)
        return join_intervals(priced, np.array([1, 1, 1]), ["matmul", "softmax", "all_reduce"])[1]

    rest = (STEP_ERROR * 3) ** 2 + 0.4**2
    apart, together = 2 * 0.4**2, 0.8 * (0.4 + 0.4) ** 2 + 0.2 * 0.4**2 * 2
    assert high(False) == pytest.approx(3 + math.sqrt(apart + rest))
    assert high(True) == pytest.approx(3 + math.sqrt(together + rest))


def test_what_a_step_adds_may_differ_below_and_above() -> None:
    """√(0.3² + 0.4²) = 0.5 above; below the prices' own 0.3 and the step's 0.1 by √0.1."""
    priced = estimates([1.0], 0.3, "interpolated")
    low, high = join_intervals(priced, np.array([1]), ["a"], StepError(0.1, 0.4))
    assert high == pytest.approx(1.5)
    assert low == pytest.approx(max(1 - np.sqrt(0.1), 0.7))


def test_a_training_is_less_sure_above_its_forecast_and_a_compiled_step_either_way() -> None:
    eager, training, compiled = (
        step_error_of_device(is_training=is_training, is_compiled=is_compiled)
        for is_training, is_compiled in ((False, False), (True, False), (True, True))
    )
    assert eager.below == training.below < compiled.below
    assert eager.above < training.above <= compiled.above
