"""Linear layers by oneDNN, forward and backward: PyTorch's own go to MKL.

MKL keeps to AVX2 on processors that are not Intel's: on a Zen 5 core it multiplies 512 × 512 fp32 matrices at
105 GFLOP/s, oneDNN at 220. Both sum in fp32, in another order. Public PyTorch reaches oneDNN only by tensors
in oneDNN's own layout, whose conversion costs what is gained: hence ``torch.ops.mkldnn._linear_pointwise``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from perfcast.torch_internals import replaced

_linear = functional.linear


class _Linear(torch.autograd.Function):
    """x [..., i] · wᵀ [i, o] + b; gradients are two products and a sum."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.has_bias = bias is not None
        return _product(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        inputs, weight = ctx.saved_tensors
        rows = gradients[0].reshape(-1, weight.shape[0])
        of_inputs = _product(rows, weight.t()).reshape(inputs.shape) if ctx.needs_input_grad[0] else None
        of_weight = _product(rows.t(), inputs.reshape(-1, weight.shape[1]).t())
        return of_inputs, of_weight, rows.sum(0) if ctx.has_bias else None


def _product(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    return product


def _fast_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002
    is_fp32 = input.dtype == weight.dtype == torch.float32
    if is_fp32 and input.device.type == "cpu":
        return _Linear.apply(input, weight, bias)  # type: ignore[no-any-return,no-untyped-call]
    return _linear(input, weight, bias)


def has_onednn() -> bool:
    """Whether this PyTorch holds oneDNN and its linear layer."""
    is_built = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(is_built) and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@contextmanager
def fast_linear_layers() -> Iterator[None]:
    """Inside, fp32 linear layers on processors run by oneDNN; without oneDNN in PyTorch, as always."""
    if not has_onednn():
        yield
        return
    with replaced(functional, "linear", _fast_linear):
        yield
