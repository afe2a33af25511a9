"""Torch's types translated into the ground floor's."""

from __future__ import annotations

import torch

from perfcast.core.dtype import DType
from perfcast.core.tensor import TensorType
from perfcast.errors import CaptureError

TORCH_DTYPES: dict[torch.dtype, DType] = {
    torch.float64: DType.FP64,
    torch.float32: DType.FP32,
    torch.bfloat16: DType.BF16,
    torch.float16: DType.FP16,
    torch.float8_e4m3fn: DType.FP8,
    torch.float8_e5m2: DType.FP8,
    torch.float8_e4m3fnuz: DType.FP8,
    torch.float8_e5m2fnuz: DType.FP8,
    torch.int64: DType.INT64,
    torch.int32: DType.INT32,
    torch.int16: DType.INT16,
    torch.int8: DType.INT8,
    torch.uint8: DType.UINT8,
    torch.bool: DType.BOOL,
    torch.complex64: DType.COMPLEX64,
}


def dtype_of(dtype: torch.dtype) -> DType:
    """The element type; raises CaptureError for one that perfcast does not know."""
    try:
        return TORCH_DTYPES[dtype]
    except KeyError:
        raise CaptureError(f"tensors of {dtype} are not supported") from None


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """Shape, element type and strides."""
    return TensorType(tuple(tensor.shape), dtype_of(tensor.dtype), tuple(tensor.stride()))
