"""Kernels that may be measured: products, attention, convolutions and rows as PyTorch runs them.

Which of them tell most, and in which order, is in ``order.toml`` (``design`` finds it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.learned.corrections.measured import MeasuredKernel
from perfcast.measure.correct import as_kernels
from perfcast.measure.kernels import KernelCase, integers, kernel_case, operation_of_case
from perfcast.torch_internals.eager import scaled_mm

Maker = Callable[[str], Tensor]

_TORCH = {
    DType.BF16: torch.bfloat16,
    DType.FP16: torch.float16,
    DType.FP32: torch.float32,
    DType.TF32: torch.float32,
    DType.FP8: torch.float8_e4m3fn,
}


@dataclass(frozen=True)
class FewCase:
    """One kernel that may be measured.

    Attributes:
        case: How it is made and run.
        arithmetic: What it computes in; TF32 is fp32 with the libraries allowed to round.
        is_warm: Its operands stay in the cache from call to call.
    """

    case: KernelCase
    arithmetic: DType
    is_warm: bool = False

    @property
    def name(self) -> str:
        """'linear bf16 m=4096 n=4096 k=4096'."""
        return self.case.key

    def operation(self) -> Operation:
        """What the recorder makes of it."""
        return replace(operation_of_case(self.case), compute_dtype=self.arithmetic)

    def kernel(self, seconds: float, vendor: str, *, is_cold: bool = True) -> MeasuredKernel:
        """As the forecaster knows it, with its time."""
        (kernel,) = as_kernels([self.name], [self.operation()], [seconds], vendor, is_cold=is_cold)
        return kernel

    def runs_on(self, device: Device) -> bool:
        """Whether the device has units for its arithmetic; conversions alone would be measured elsewhere."""
        return self.arithmetic in device.matrix_flops_per_second or (
            self.arithmetic in device.vector_flops_per_second
        )


@cache
def few_cases() -> dict[str, FewCase]:
    """All that may be measured, by name."""
    builders = (_linears, _batched, _attentions, _convolutions, _rows)
    return {case.name: case for builder in builders for case in builder()}


def numbers(dtype: DType, *shape: int, last: bool = False) -> Maker:
    """Normal random numbers, since a product of equal ones draws less power; channels last if asked."""

    def make(device: str) -> Tensor:
        made = torch.randn(shape, device=device).to(_TORCH[dtype])
        return made.to(memory_format=torch.channels_last) if last else made

    return make


def _case(name: str, dtype: DType, label: str, run: Callable[..., Any], *makers: Maker) -> FewCase:
    return FewCase(kernel_case(f"{name} {dtype.label}", label, run, *makers), dtype)


# ---- products ----------------------------------------------------------------------------------------

#: (m, n, k): prefill and training, small, skinny of decoding, wide heads, thin slices of tensor parallelism.
_LINEARS = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (4096, 14336, 4096),
    (4096, 4096, 14336),
    (2048, 2048, 8192),
    (1024, 1024, 1024),
    (512, 4096, 4096),
    (256, 6144, 4096),
    (128, 8192, 2048),
    (64, 4096, 4096),
    (16, 14336, 4096),
    (1, 4096, 4096),
    (1, 28672, 8192),
    (512, 512, 512),
    (2048, 32000, 4096),
    (64, 1024, 1024),
)
_LARGE_FORMATS = (DType.BF16, DType.FP16, DType.TF32, DType.FP32)


def _linears() -> Iterator[FewCase]:
    for m, n, k in _LINEARS:
        label = f"m={m} n={n} k={k}"
        for dtype in _LARGE_FORMATS:
            yield _case("linear", dtype, label, functional.linear, numbers(dtype, m, k), numbers(dtype, n, k))
        if m >= 16:
            eight = numbers(DType.FP8, m, k), numbers(DType.FP8, n, k)
            yield _case("linear", DType.FP8, label, _scaled_product, *eight, _one)


def _scaled_product(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """x · weightᵀ in fp8 with one scale each, into bf16."""
    return scaled_mm(x, weight.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)


def _one(device: str) -> Tensor:
    return torch.ones((), device=device)


def _batched() -> Iterator[FewCase]:
    for batch, m, n, k in ((128, 512, 512, 64), (32, 1024, 1024, 128), (256, 128, 64, 128)):
        for dtype in (DType.BF16, DType.FP32):
            label = f"batch={batch} m={m} n={n} k={k}"
            yield _case(
                "bmm", dtype, label, torch.bmm, numbers(dtype, batch, m, k), numbers(dtype, batch, k, n)
            )


# ---- attention ---------------------------------------------------------------------------------------

#: batch, heads, heads of keys, queries, keys, size of a head, causal.
_ATTENTIONS = (
    (1, 32, 8, 4096, 4096, 128, True),
    (1, 32, 8, 16384, 16384, 128, True),
    (8, 32, 8, 1024, 1024, 128, True),
    (16, 16, 16, 512, 512, 64, True),
    (1, 8, 1, 2048, 2048, 128, True),
    (8, 12, 12, 512, 512, 64, False),
    (64, 12, 12, 197, 197, 64, False),
    (1, 16, 16, 4096, 4096, 64, False),
    (16, 32, 8, 1, 1024, 128, False),
    (64, 32, 8, 1, 4096, 128, False),
    (1, 32, 8, 1, 32768, 128, False),
    (8, 16, 16, 1, 2048, 64, False),
    (128, 8, 1, 1, 2048, 128, False),
)


def _attentions() -> Iterator[FewCase]:
    for batch, heads, kv_heads, queries, keys, size, causal in _ATTENTIONS:
        for dtype in (DType.BF16, DType.FP16):
            label = f"batch={batch} heads={heads}/{kv_heads} queries={queries} keys={keys} size={size}"
            q = numbers(dtype, batch, heads, queries, size)
            k = numbers(dtype, batch, kv_heads, keys, size)
            yield _case("attention", dtype, label + causal * " causal", _Attention(causal), q, k, k)


@dataclass(frozen=True)
class _Attention:
    causal: bool

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        grouped = q.shape[1] != k.shape[1]
        return functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=grouped)


# ---- convolutions ------------------------------------------------------------------------------------

#: batch, channels in, channels out, side of the image, side of the filter, stride, groups.
_CONVOLUTIONS = (
    (64, 3, 64, 224, 7, 2, 1),
    (64, 64, 64, 56, 3, 1, 1),
    (64, 256, 256, 14, 3, 1, 1),
    (64, 1024, 256, 14, 1, 1, 1),
    (64, 144, 144, 56, 3, 1, 144),
    (64, 384, 384, 28, 7, 1, 384),
)


def _convolutions() -> Iterator[FewCase]:
    for batch, into, out, side, filter_, stride, groups in _CONVOLUTIONS:
        for dtype in (DType.FP16, DType.FP32):
            for last in (False, True):
                layout = "nhwc" if last else "nchw"
                label = f"{layout} batch={batch} c={into},{out} side={side} filter={filter_} groups={groups}"
                x = numbers(dtype, batch, into, side, side, last=last)
                w = numbers(dtype, out, into // groups, filter_, filter_, last=last)
                run = _Convolution(stride, filter_ // 2, groups)
                yield _case("convolution", dtype, label, run, x, w)


@dataclass(frozen=True)
class _Convolution:
    stride: int
    padding: int
    groups: int

    def __call__(self, x: Tensor, w: Tensor) -> Tensor:
        return functional.conv2d(x, w, None, self.stride, self.padding, 1, self.groups)


# ---- rows --------------------------------------------------------------------------------------------


def _rows() -> Iterator[FewCase]:
    for dtype in (DType.BF16, DType.FP32):
        for rows, width in ((16384, 4096), (2048, 1024), (16, 256)):
            label = f"rows={rows} width={width}"
            x, w = numbers(dtype, rows, width), numbers(dtype, width)
            yield _case("add", dtype, label, torch.add, x, x)
            yield _case("gelu", dtype, label, functional.gelu, x)
            yield _case("softmax", dtype, label, _softmax, x)
            yield _case("layer_norm", dtype, label, _layer_norm, x, w, w)
            yield _case("copy", dtype, label, torch.clone, x)
        yield replace(
            _case("add", dtype, "in the cache", torch.add, *2 * [numbers(dtype, 1024, 1024)]), is_warm=True
        )
        table, picked = numbers(dtype, 32000, 4096), integers(32000, 8192)
        yield _case("embedding", dtype, "rows=32000 width=4096 count=8192", _look_up, table, picked)
        yield _case("sum_columns", dtype, "rows=16384 width=4096", _sum_columns, numbers(dtype, 16384, 4096))


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(x, [x.shape[-1]], weight, bias)


def _look_up(table: Tensor, picked: Tensor) -> Tensor:
    return functional.embedding(picked, table)


def _sum_columns(x: Tensor) -> Tensor:
    return x.sum(0)
