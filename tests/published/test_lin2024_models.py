"""Kernel models of Lin et al. worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.published.multi_gpu_2024.cost import lookup_of
from perfcast.published.multi_gpu_2024.memory_bound import OPERATORS, operation_seconds, work_seconds
from perfcast.published.multi_gpu_2024.recorded import fbgemm_lookup
from perfcast.traces.events import OperatorInputs

V100 = load_device("v100-pcie-32gb")
BANDWIDTH = 0.91 * V100.memory_bytes_per_second
PEAK = 0.98 * V100.vector_flops_per_second[DType.FP32]


def operation(name, inputs, outputs):
    return Operation(OperationKind.ELEMENTWISE, name, tuple(inputs), tuple(outputs), DType.FP32, 0, 0, 0)


def fp32(*shape):
    return TensorType(shape, DType.FP32)


def test_an_addition_moves_three_tensors_and_one_of_a_number_two():
    both = operation("add_", [fp32(1000, 1000)] * 2, [fp32(1000, 1000)])
    assert operation_seconds(both, V100) == pytest.approx(12e6 / BANDWIDTH)
    number = operation("add", [fp32(1000, 1000)], [fp32(1000, 1000)])
    assert operation_seconds(number, V100) == pytest.approx(8e6 / BANDWIDTH)


def test_tanh_takes_180_operations_an_element_which_bounds_it():
    found = work_seconds(OPERATORS["tanh"], np.array([1e6]), V100)[0]
    assert found == pytest.approx(max(180e6 / PEAK, 8e6 / BANDWIDTH))
    assert found > 8e6 / BANDWIDTH


def test_a_sum_counts_what_it_reads():
    found = operation_seconds(operation("sum", [fp32(512, 512)], [fp32(512)]), V100)
    assert found == pytest.approx(4 * 512 * 512 / BANDWIDTH)


def test_an_operator_without_constants_has_none():
    assert operation_seconds(operation("sort", [fp32(8)], [fp32(8)]), V100) is None


def test_a_lookup_is_read_off_its_tensors():
    indices, offsets = TensorType((640,), DType.INT64), TensorType((64,), DType.INT64)
    found = lookup_of(operation("_embedding_bag", [fp32(1000, 32), indices, offsets], [fp32(64, 32)]))
    assert (found.num_rows, found.dim, found.batch_size, found.pooling) == (1000, 32, 64, 10)


def test_an_fbgemm_lookup_is_read_off_its_shapes():
    # Three tables, 128 bags each, 768 indices, gradients 48 wide: 16 columns a table, two lookups a bag.
    shapes = ((0,), (4800,), (3,), (4,), (4,), (768,), (385,), ())
    types = ("float", "float", "long int", "int", "long int", "long int", "long int", "Scalar")
    found = fbgemm_lookup(OperatorInputs(shapes, types, (), ()), bags=128, columns=48)
    assert (found.num_rows, found.dim, found.batch_size, found.pooling) == (100, 16, 384, 2)
    assert fbgemm_lookup(OperatorInputs(shapes, types, (), ()), bags=100, columns=48) is None
