"""Predictors of kernels as cost models of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from builders import allocation, matmul
from perfcast.catalogs.devices import load_device
from perfcast.core.arrays import Floats, Integers
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.core.tensor import TensorType
from perfcast.cost.model import UNKNOWN_SPREAD
from perfcast.cost.roofline import Roofline
from perfcast.cost.spread import load_spread
from perfcast.errors import PlanError
from perfcast.published.kernels.graph import StudyCost, TablePricer, build_table_cost
from perfcast.published.kernels.work import convolution_work, product_work, row_kernel_work
from perfcast.published.neusight.rules import calls_in
from perfcast.workload.rules import OperatorCall, operation_of

T4, L4 = load_device("t4"), load_device("l4")


@dataclass(frozen=True)
class OneRate:
    """A picosecond per flop of batched products, convolutions and byte of rows; linear has no model."""

    name: str = "one-rate"

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        if kernels.family is KernelFamily.ROWS:
            return 1e-12 * row_kernel_work(kernels).traffic_bytes
        if kernels.family is KernelFamily.CONVOLUTION:
            return 1e-12 * convolution_work(kernels).flops
        return np.where(kernels.word("operation") == "bmm", 1e-12 * product_work(kernels).flops, np.nan)


COST = StudyCost(TablePricer(OneRate(), "nvidia", {("bmm", True): (0.5, 3.0)}, frozenset({"t4"})))


def tensor(*shape: int) -> TensorType:
    return TensorType(shape, DType.FP32, tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape))))


def call(name: str, *shapes: tuple[int, ...]) -> Operation:
    *inputs, output = (tensor(*shape) for shape in shapes)
    return operation_of(OperatorCall(name, tuple(inputs), {}, (output,)))


BMM = call("bmm", (8, 32, 64), (8, 64, 16), (8, 32, 16))
ADD = call("add.Tensor", (4096, 1024), (4096, 1024), (4096, 1024))


def test_each_operation_is_the_sum_of_its_kernels_by_the_predictor():
    estimates = COST.estimate([BMM, ADD, allocation(10)], T4)
    assert estimates.seconds.tolist() == pytest.approx(
        [1e-12 * 2 * 8 * 32 * 64 * 16, 12e-12 * 4096 * 1024, 0]
    )
    assert estimates.provenance[:2] == ("one-rate", "one-rate")


def test_an_operation_without_a_model_is_the_rooflines_and_says_so():
    linear = matmul(512, 512, 512, DType.FP32)
    found, roofline = COST.estimate([linear], T4), Roofline().estimate([linear], T4)
    assert found.provenance == ("bounded",)
    assert found.seconds[0] == pytest.approx(roofline.seconds_low[0])
    assert found.seconds_high[0] == pytest.approx(load_spread("roofline") * found.seconds[0])
    assert found.bound_by == ("compute",)


def test_intervals_hold_on_devices_that_were_learned_from_and_are_wide_on_others():
    seen, other = COST.estimate([BMM], T4), COST.estimate([BMM], L4)
    assert seen.seconds_high[0] / seen.seconds[0] == pytest.approx(3.0)
    assert other.seconds_high[0] / other.seconds[0] == pytest.approx(UNKNOWN_SPREAD)
    assert (other.seconds_low <= other.seconds).all()


def convolution(*shapes: tuple[int, ...], groups: int = 1, stride: int = 1) -> Operation:
    inputs, weight, output = (tensor(*shape) for shape in shapes)
    padding = [weight.shape[-1] // 2] * 2
    args = (inputs, weight, None, [stride] * 2, padding, [1, 1], False, [0, 0], groups)
    return operation_of(OperatorCall("convolution", args, {}, (output,)))


def test_a_square_convolution_is_a_kernel_of_the_study_and_another_is_not():
    square = convolution((8, 64, 56, 56), (128, 64, 3, 3), (8, 128, 56, 56))
    grouped = convolution((8, 64, 56, 56), (64, 1, 3, 3), (8, 64, 56, 56), groups=64)
    oblong = convolution((8, 64, 56, 28), (128, 64, 3, 3), (8, 128, 56, 28))
    estimates = COST.estimate([square, grouped, oblong], T4)
    assert estimates.provenance == ("one-rate", "bounded", "bounded")
    assert estimates.seconds[0] == pytest.approx(1e-12 * square.flops)


def test_the_gradients_of_a_convolution_are_two_kernels():
    x, w, y = tensor(8, 64, 56, 56), tensor(128, 64, 3, 3), tensor(8, 128, 56, 56)
    args = (y, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    backward = operation_of(OperatorCall("convolution_backward", args, {}, (x, w)))
    assert [call.operation for call in calls_in(backward) or ()] == ["conv", "conv"]


def test_no_operation_is_no_estimate():
    assert len(COST.estimate([], T4).seconds) == 0


def test_the_record_tells_intervals_devices_and_vendor():
    record = {
        "vendor": "nvidia",
        "devices": ["t4"],
        "nets": {"bmm": {"ratio_low": 0.5, "ratio_high": 3.0}},
        "ratios": {"vec": {"known": [0.9, 1.1], "unseen": [0.7, 1.3]}},
    }
    cost = build_table_cost(OneRate(), record)
    known, unseen = (cost.estimate([BMM, ADD], device) for device in (T4, L4))
    assert known.seconds_high / known.seconds == pytest.approx([3.0, 1.1])
    assert unseen.seconds_high / unseen.seconds == pytest.approx([UNKNOWN_SPREAD, 1.3])


def test_other_precisions_and_vendors_are_refused_with_a_way_out():
    with pytest.raises(PlanError, match=r"one-rate was trained on fp32.*--dtype fp32"):
        COST.estimate([matmul(8, 8, 8, DType.BF16)], T4)
    with pytest.raises(PlanError, match="perfcast train one-rate --vendor amd"):
        COST.estimate([BMM], load_device("mi100"))
