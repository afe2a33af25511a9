"""Work of operators that few models have, by hand."""

from __future__ import annotations

import pytest

from perfcast.core.dtype import DType
from perfcast.core.operation import OperationKind
from perfcast.core.tensor import TensorType
from perfcast.workload.rules import OperatorCall, operation_of


def tensor(*shape: int, dtype: DType = DType.FP32) -> TensorType:
    return TensorType(shape, dtype)


def test_a_fourier_transform_takes_5_n_log2_n():
    complex_ = tensor(4, 64, 128, dtype=DType.COMPLEX64)
    both = operation_of(OperatorCall("_fft_c2c", (complex_, (1, 2), 0, True), {}, (complex_,)))
    assert both.flops == 5 * (4 * 64 * 128) * 13  # 64 × 128 points are 2 ** 13
    half = tensor(4, 65, dtype=DType.COMPLEX64)
    real = operation_of(OperatorCall("_fft_r2c", (tensor(4, 128), (1,), 0, True), {}, (half,)))
    assert real.flops == 2.5 * (4 * 128) * 7
    assert real.memory_traffic_bytes == 4 * 128 * 4 + 4 * 65 * 8
    assert real.compute_dtype is DType.FP32


def test_distances_of_all_pairs_take_three_flops_a_coordinate():
    call = OperatorCall("_euclidean_dist", (tensor(2, 10, 3), tensor(2, 20, 3)), {}, (tensor(2, 10, 20),))
    assert operation_of(call).flops == 3 * 3 * (2 * 10 * 20)


@pytest.mark.parametrize("name", ["reflection_pad2d_backward", "replication_pad3d", "upsample_trilinear3d"])
def test_pads_and_upsamplings_move_their_bytes(name: str):
    found = operation_of(OperatorCall(name, (tensor(1, 8),), {}, (tensor(1, 16),)))
    assert (found.kind, found.memory_traffic_bytes) == (OperationKind.COPY, 4 * 24)
