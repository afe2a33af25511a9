"""What of an operator's time on a processor grows with its size, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.traces.forecast.host.same_processor import (
    FAULT_SECONDS,
    MAPPED_BYTES,
    call_seconds,
    in_calls,
    work_ratios,
)
from perfcast.units import MICRO


def product_of(kind: OperationKind, count: int) -> Operation:
    """An operator that reads and writes ``count`` numbers."""
    tensor = TensorType((count,), DType.FP32)
    return Operation(kind, "aten.relu", (tensor,), (tensor,), DType.FP32, 0, 0, 8 * count)


def ratio_of(before: Operation, after: Operation, seconds: float) -> float:
    found = work_ratios([before], [after], np.array([seconds]), np.ones(1))
    assert found.low[0] <= found.ratio[0] <= found.high[0]
    return float(found.ratio[0])


@pytest.mark.parametrize(("count", "expected"), [(10, 1.00375), (8_000, 2.5), (10**6, 3.9762)])
def test_small_operators_hardly_grow_and_large_ones_as_their_batch(count: int, expected: float):
    small = product_of(OperationKind.ELEMENTWISE, count)
    large = product_of(OperationKind.ELEMENTWISE, 4 * count)
    assert ratio_of(small, large, 9 * MICRO) == pytest.approx(expected, rel=1e-3)


def test_random_numbers_cost_more_a_byte_than_sums():
    assert in_calls(product_of(OperationKind.RANDOM, 4000)) == pytest.approx(9)
    assert in_calls(product_of(OperationKind.ELEMENTWISE, 4000)) == pytest.approx(1.5)


def test_a_result_that_malloc_maps_apart_faults_in_its_pages():
    below = product_of(OperationKind.FILL, MAPPED_BYTES // 4)
    beyond = product_of(OperationKind.FILL, MAPPED_BYTES)
    growth = in_calls(beyond) / in_calls(below)
    faults = 4 * MAPPED_BYTES / 4096 * FAULT_SECONDS
    assert ratio_of(below, beyond, 1e-3) == pytest.approx(growth + faults / 1e-3)
    # Back again: of 100 ms recorded, what were faults is not there.
    assert ratio_of(beyond, below, 0.1) == pytest.approx((1 - faults / 0.1) / growth)


def test_a_call_is_what_operators_take_that_do_little_else():
    tiny, large = product_of(OperationKind.COPY, 100), product_of(OperationKind.COPY, 10**6)
    seconds = np.array([1.0, 3.0, 80.0, 0.5]) * MICRO
    assert call_seconds([tiny, tiny, large, None], seconds, [False] * 4) == pytest.approx(2 * MICRO)
    assert call_seconds([None, None, large, None], seconds, [False, False, False, True]) == pytest.approx(
        0.5 * MICRO
    )
