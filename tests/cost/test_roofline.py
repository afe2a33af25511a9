"""The made-up device does 10 TFLOP/s in half precision, 1 TFLOP/s otherwise, 100 GB/s, 1 µs per launch."""

from __future__ import annotations

import pytest

from builders import elementwise, made_up_device, matmul
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.cost.roofline import Roofline
from perfcast.cost.spread import load_spread


def price(operation: Operation) -> tuple[float, float, float, str]:
    estimates = Roofline().estimate([operation], made_up_device())
    low, seconds, high = (
        float(x[0]) for x in (estimates.seconds_low, estimates.seconds, estimates.seconds_high)
    )
    return low, seconds, high, estimates.bound_by[0]


def test_a_large_product_is_bound_by_arithmetic():
    # 2 · 1000³ = 2e9 flops at 1e13 per second are 200 µs; 3 · 1000² · 2 = 6e6 bytes at 1e11 are 60 µs
    low, seconds, high, bound_by = price(matmul(1000, 1000, 1000))
    assert low == pytest.approx(200e-6)
    assert seconds == pytest.approx(201e-6)
    assert high == pytest.approx(201e-6 * load_spread("roofline"))
    assert bound_by == "compute"


def test_a_product_in_single_precision_runs_on_the_ordinary_units():
    assert price(matmul(1000, 1000, 1000, DType.FP32))[1] == pytest.approx(2001e-6)


def test_a_thin_product_is_bound_by_memory():
    # (4000·1 + 1·4000 + 4000·4000) · 2 = 32.016e6 bytes are 320.16 µs; 3.2e7 flops are 3.2 µs
    _, seconds, _, bound_by = price(matmul(4000, 4000, 1))
    assert seconds == pytest.approx(321.16e-6)
    assert bound_by == "memory"


def test_an_addition_is_bound_by_memory():
    # 3 · 10⁶ · 2 bytes are 60 µs
    assert price(elementwise(10**6)) == (
        pytest.approx(60e-6), pytest.approx(61e-6), pytest.approx(61e-6 * load_spread("roofline")), "memory",
    )  # fmt: skip


def test_what_takes_less_than_a_launch_is_bound_by_the_launch():
    _, seconds, _, bound_by = price(elementwise(10))
    assert seconds == pytest.approx(1e-6, rel=1e-3)
    assert bound_by == "launch"
