"""What a device makes of a captured operation."""

from __future__ import annotations

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.workload.lower import lower


def lowered(kind: OperationKind, device: str, dtype: str) -> DType:
    image = TensorType((1, 8, 8, 8), DType.FP32)
    operation = Operation(kind, "made up", (image,), (image,), DType.FP32, 1, 1, 1)
    return lower(Graph((), (operation,), (), ()), load_device(device), dtype).operations[0].compute_dtype


@pytest.mark.parametrize(
    ("device", "format_"), [("a100-sxm-80gb", DType.TF32), ("v100-sxm-32gb", DType.FP32)]
)
def test_convolutions_of_fp32_tensors_run_in_tf32_where_a_device_has_it(device: str, format_: DType):
    assert lowered(OperationKind.CONVOLUTION, device, "fp32") is format_


def test_products_run_in_tf32_only_where_it_is_asked_for():
    assert lowered(OperationKind.MATMUL, "a100-sxm-80gb", "fp32") is DType.FP32
    assert lowered(OperationKind.MATMUL, "a100-sxm-80gb", "tf32") is DType.TF32
    assert lowered(OperationKind.ELEMENTWISE, "a100-sxm-80gb", "tf32") is DType.FP32
