from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.devices import find_device_name, load_device, load_processor_entries
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.processor.model import load_processor_constants, price_on_processor, unit_seconds
from perfcast.cost.processor.work import CLASSES, class_of, work_of
from perfcast.prediction.names import default_cost_model, resolve_cost_model

MEASURED, OTHER = load_device("i9-10940x"), load_device("epyc-7763")


def tensor(*shape: int) -> TensorType:
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return TensorType(shape, DType.FP32, strides)


def convolution(channels: int, per_group: int, filters: int = 8, side: int = 14) -> Operation:
    data, weight = tensor(1, channels, side, side), tensor(filters, per_group, 3, 3)
    flops = 2 * filters * per_group * 9 * side * side
    output = tensor(1, filters, side, side)
    moved = sum(t.num_bytes for t in (data, weight, output))
    return Operation(
        OperationKind.CONVOLUTION, "convolution", (data, weight), (output,), DType.FP32, flops, flops, moved
    )


def test_a_convolution_is_of_all_channels_of_groups_or_of_single_ones():
    kinds = [class_of(convolution(8, per_group)) for per_group in (8, 4, 1)]
    assert kinds == ["convolution", "grouped", "depthwise"]


def test_work_stands_in_the_column_of_its_class():
    """1 × 8 × 14 × 14 in and out and 8 × 8 × 3 × 3 weights, four bytes each."""
    work = work_of([convolution(8, 8)])
    column = CLASSES.index("convolution")
    assert work.calls[0].tolist() == [float(i == column) for i in range(len(CLASSES))]
    assert work.weight_bytes[0, column] == 4 * 8 * 8 * 9
    assert work.activation_bytes[0, column] == 2 * 4 * 8 * 14 * 14
    assert work.flops[0, column] == 2 * 8 * 8 * 9 * 14 * 14


def test_seconds_are_the_terms_of_the_formula():
    operation, constants = convolution(8, 8), load_processor_constants()
    call, flop, weight, activation = unit_seconds(MEASURED)
    work = work_of([operation])
    column = CLASSES.index("convolution")
    expected = (
        constants.calls["convolution"] * call
        + constants.flops["convolution"] * work.flops[0, column] * flop
        + constants.weights["convolution"] * work.weight_bytes[0, column] * weight
        + constants.activations["convolution"] * work.activation_bytes[0, column] * activation
    )
    assert price_on_processor([operation], MEASURED).seconds[0] == pytest.approx(expected)


def test_a_processor_that_nobody_measured_has_a_wider_interval():
    known, other = (price_on_processor([convolution(8, 8)], device) for device in (MEASURED, OTHER))
    assert (known.provenance, other.provenance) == (("interpolated",), ("extrapolated",))
    ratios = [found.seconds_high[0] / found.seconds[0] for found in (known, other)]
    assert ratios[1] > ratios[0] > 1


def test_learned_prices_processors_and_is_their_default():
    operations = [convolution(8, 8), convolution(8, 1)]
    found = LearnedCost().estimate(operations, MEASURED)
    assert found.seconds.tolist() == price_on_processor(operations, MEASURED).seconds.tolist()
    assert LearnedCost().nearest(operations, MEASURED) == ["", ""]
    assert default_cost_model(MEASURED) == "learned"
    assert resolve_cost_model(None, MEASURED).name == "learned"


def test_tables_name_processors_as_their_files_do():
    assert find_device_name("cpu-i9-10940x") == "i9-10940x"


@pytest.mark.parametrize("name", load_processor_entries())
def test_a_processors_peak_is_what_its_cores_can_do(name: str):
    """Between 16 and 64 operations a core and cycle of its guaranteed clock: FMA of 128 to twice 512 bits."""
    device = load_device(name)
    per_cycle = device.vector_flops_per_second[DType.FP32] / (device.num_sms * device.clock_hertz)
    assert device.is_cpu
    assert not device.is_local
    assert 15.9 < per_cycle < 64.1
    assert device.max_clock_hertz is not None
    assert device.max_clock_hertz > device.clock_hertz


@given(st.integers(1, 64), st.integers(1, 8))
def test_more_work_is_never_faster_nor_below_the_roofline(filters: int, more: int):
    small, large = convolution(8, 8, filters), convolution(8, 8, filters * more)
    found = price_on_processor([small, large], OTHER)
    assert found.seconds[0] <= found.seconds[1]
    assert (found.seconds_low <= found.seconds).all()
    assert (found.seconds <= found.seconds_high).all()


def test_a_faster_clock_is_never_slower():
    slow = replace(OTHER, max_clock_hertz=OTHER.clock_hertz)
    operations = [convolution(8, 8)]
    assert price_on_processor(operations, OTHER).seconds[0] <= price_on_processor(operations, slow).seconds[0]
