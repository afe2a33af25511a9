"""Cases for accelerators alone: attention as PyTorch runs it there, and sizes beyond their caches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from perfcast.measure.kernels import KernelCase, floats, kernel_case, split_heads
from perfcast.units import MIB

aten = torch.ops.aten

#: Batch, heads, length, size of a head.
_ATTENTIONS = (
    (2, 4, 64, 32), (8, 4, 128, 32), (4, 8, 128, 64), (8, 8, 197, 64), (4, 12, 256, 64), (16, 12, 197, 64),
    (2, 16, 384, 64), (8, 12, 512, 64), (4, 16, 512, 64), (4, 12, 1024, 64), (2, 16, 2048, 64),
    (1, 32, 2048, 128),
)  # fmt: skip
#: Numbers of elements; three tensors of the larger ones outgrow a last cache of 256 MiB.
_ELEMENTS = (8 * MIB, 32 * MIB, 128 * MIB)
#: Sides of products that fill the largest device.
_PRODUCTS = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 2048, 4096))


def accelerator_cases() -> list[KernelCase]:
    """All of them, fp32."""
    return [*_attentions(), *_large()]


def _attentions() -> list[KernelCase]:
    cases = []
    for batch, heads, length, size in _ATTENTIONS:
        for causal in (False, True):
            label = f"batch={batch} heads={heads} length={length} size={size} causal={int(causal)}"
            q = split_heads(batch, length, heads, size)
            cases.append(kernel_case("sdpa", label, _Attention(causal), q, q, q))
            backward = KernelCase(f"sdpa_backward {label}", _Recorded(causal, q), _differentiate)
            cases.append(backward)
    return cases


class _Attention:
    def __init__(self, causal: bool) -> None:
        self._causal = causal

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=self._causal)


class _Recorded:
    """Arguments of a backward: the output of a forward that autograd has noted, its gradient, its inputs."""

    def __init__(self, causal: bool, make: Any) -> None:
        self._attention, self._make = _Attention(causal), make

    def __call__(self, device: str) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            inputs = [self._make(device).requires_grad_() for _ in range(3)]
            output = self._attention(*inputs)
        return (output, torch.full_like(output, 0.5), *inputs)


def _differentiate(output: Tensor, gradient: Tensor, *inputs: Tensor) -> Any:
    return torch.autograd.grad(output, inputs, gradient, retain_graph=True)


def _large() -> list[KernelCase]:
    cases = []
    for count in _ELEMENTS:
        x = floats(count)
        cases.append(kernel_case("add", f"n={count}", lambda a, b: aten.add(a, b), x, x))
        cases.append(kernel_case("clone", f"n={count}", lambda a: aten.clone(a), x))
    for m, n, k in _PRODUCTS:
        label = f"m={m} n={n} k={k}"
        cases.append(kernel_case("mm_nn", label, lambda a, b: aten.mm(a, b), floats(m, k), floats(k, n)))
    return cases
