"""Cases of products: matrices, attention, convolutions, recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from perfcast.measure.kernels import KernelCase, floats, kernel_case, log_spaced, split_heads

aten = torch.ops.aten

_MOST_BYTES = 48e6


def product_cases() -> list[KernelCase]:
    """All of them."""
    builders = (_products, _batched_products, _vector_products, _attentions, _convolutions, _recurrent)
    return [case for builder in builders for case in builder()]


def _sampled_products(seed: int, count: int) -> list[tuple[int, int, int]]:
    """(m, n, k): most of any proportions, a third with no side below 128, as most of a step's are."""
    generator = np.random.default_rng(seed)
    any_shape = _sampled_shapes(generator, count, least_side=8, flops=(0, 1.2e9))
    return any_shape + _sampled_shapes(generator, count // 2, least_side=128, flops=(1e8, 4.5e9))


def _sampled_shapes(
    generator: np.random.Generator, count: int, least_side: int, flops: tuple[float, float]
) -> list[tuple[int, int, int]]:
    """Spaced evenly in the logarithm of each side, multiples of 8 mostly, up to 48 MB."""
    found: list[tuple[int, int, int]] = []
    while len(found) < count:
        m, n, k = (int(v) for v in np.exp(generator.uniform(np.log(least_side), np.log(4096), size=3)))
        if generator.random() < 0.85:
            m, n, k = (max(8, round(v / 8) * 8) for v in (m, n, k))
        is_small = 4 * (m * n + n * k + m * k) <= _MOST_BYTES
        if flops[0] <= 2 * m * n * k <= flops[1] and is_small:
            found.append((m, n, k))
    return found


def _products() -> list[KernelCase]:
    cases = []
    for m, n, k in [*_sampled_products(1, 44), (16, 16, 16), (512, 512, 512), (1024, 768, 768)]:
        label = f"m={m} n={n} k={k}"
        cases.append(
            kernel_case(
                "addmm",
                label,
                lambda b, x, w: aten.addmm(b, x, w.t()),
                floats(n),
                floats(m, k),
                floats(n, k),
            )
        )
    for m, n, k in [*_sampled_products(2, 36), (16, 16, 16), (512, 512, 512)]:
        label = f"m={m} n={n} k={k}"
        cases.append(kernel_case("mm_nn", label, lambda a, b: aten.mm(a, b), floats(m, k), floats(k, n)))
    for m, n, k in [*_sampled_products(3, 40), (16, 16, 16), (512, 512, 512)]:
        label = f"m={m} n={n} k={k}"
        cases.append(kernel_case("mm_tn", label, lambda a, b: aten.mm(a.t(), b), floats(k, m), floats(k, n)))
    return cases


def _batched_products() -> list[KernelCase]:
    cases = []
    generator = np.random.default_rng(4)
    for index in range(42):
        batch = int(np.exp(generator.uniform(np.log(4), np.log(256))))
        m, n = (max(8, round(v / 8) * 8) for v in np.exp(generator.uniform(np.log(16), np.log(512), size=2)))
        k = max(8, round(float(np.exp(generator.uniform(np.log(16), np.log(512)))) / 8) * 8)
        if 2 * batch * m * n * k > 1.2e9 or 4 * batch * (m * n + n * k + m * k) > 48e6:
            batch = max(
                1, int(batch * min(1.2e9 / (2 * batch * m * n * k), 12e6 / (batch * (m * n + n * k + m * k))))
            )
        label = f"batch={batch} m={m} n={n} k={k}"
        match index % 3:
            case 0:
                cases.append(
                    kernel_case(
                        "bmm_nn",
                        label,
                        lambda a, b: aten.bmm(a, b),
                        floats(batch, m, k),
                        floats(batch, k, n),
                    )
                )
            case 1:
                run = lambda a, b: aten.bmm(a, b.transpose(1, 2))  # noqa: E731
                cases.append(kernel_case("bmm_nt", label, run, floats(batch, m, k), floats(batch, n, k)))
            case 2:
                run = lambda a, b: aten.bmm(a.transpose(1, 2), b)  # noqa: E731
                cases.append(kernel_case("bmm_tn", label, run, floats(batch, k, m), floats(batch, k, n)))
    return cases


def _vector_products() -> list[KernelCase]:
    return [
        kernel_case("mv", f"m={size} k={size}", lambda a, x: aten.mv(a, x), floats(size, size), floats(size))
        for size in log_spaced(32, 3000, 7)
    ]


def _attentions() -> list[KernelCase]:
    cases = []
    shapes = [
        (1, 2, 16, 32),
        (2, 4, 64, 32),
        (4, 4, 64, 64),
        (8, 4, 128, 32),
        (4, 8, 128, 64),
        (2, 8, 256, 64),
        (8, 8, 197, 64),
        (1, 8, 512, 64),
        (4, 12, 256, 64),
        (16, 3, 197, 64),
        (2, 8, 512, 32),
        (2, 16, 384, 64),
        (1, 4, 1024, 64),
        (4, 8, 96, 128),
        (32, 4, 50, 48),
    ]
    for batch, heads, length, size in shapes:
        for causal in (False, True):  # an unmasked kernel does not skip, a causal one does
            label = f"batch={batch} heads={heads} length={length} size={size} causal={int(causal)}"
            # [batch, length, heads, size] seen as [batch, heads, length, size], as a split of heads is.
            q = split_heads(batch, length, heads, size)
            forward = _Attention(causal)
            cases.append(kernel_case("attention", label, forward, q, q, q))
            cases.append(
                kernel_case(
                    "attention_backward",
                    label,
                    _AttentionBackward(causal),
                    q,
                    q,
                    q,
                    q,
                    q,
                    floats(batch, heads, length),
                )
            )
    return cases


@dataclass(frozen=True)
class _Attention:
    causal: bool

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
        return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, self.causal)


@dataclass(frozen=True)
class _AttentionBackward:
    causal: bool

    def __call__(self, g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor) -> Any:
        run = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return run(g, q, k, v, out, logsumexp, 0.0, self.causal)


#: batch, channels in, channels out, image side, filter side, stride, groups.
_CONVOLUTIONS = [
    (1, 3, 16, 32, 3, 1, 1),
    (8, 3, 32, 64, 3, 1, 1),
    (8, 3, 64, 96, 7, 2, 1),
    (4, 3, 96, 112, 16, 16, 1),
    (8, 16, 32, 32, 3, 1, 1),
    (16, 32, 32, 28, 3, 1, 1),
    (8, 32, 64, 56, 3, 2, 1),
    (16, 64, 64, 16, 3, 1, 1),
    (4, 64, 64, 56, 3, 1, 1),
    (8, 64, 128, 28, 3, 2, 1),
    (8, 128, 128, 14, 3, 1, 1),
    (2, 128, 256, 28, 1, 1, 1),
    (16, 256, 64, 14, 1, 1, 1),
    (8, 256, 256, 7, 3, 1, 1),
    (4, 256, 512, 7, 3, 2, 1),
    (16, 64, 256, 14, 1, 1, 1),
    (32, 8, 8, 16, 3, 1, 1),
    (2, 24, 48, 40, 5, 1, 1),
    (4, 512, 512, 7, 1, 1, 1),
]
_WIDE_CONVOLUTIONS = [
    (8, 48, 48, 56, 3, 1, 1),
    (12, 96, 96, 28, 3, 1, 1),
    (16, 24, 24, 56, 3, 1, 1),
    (10, 160, 160, 14, 3, 1, 1),
    (20, 80, 160, 20, 3, 1, 1),
    (6, 192, 192, 24, 3, 1, 1),
]
_GROUPED_CONVOLUTIONS = [
    (1, 16, 16, 16, 3, 1, 16),
    (4, 32, 32, 28, 3, 1, 32),
    (8, 64, 64, 28, 3, 1, 64),
    (4, 96, 96, 56, 3, 2, 96),
    (8, 128, 128, 14, 3, 1, 128),
    (16, 256, 256, 14, 3, 1, 256),
    (8, 192, 192, 28, 5, 1, 192),
    (16, 512, 512, 7, 3, 1, 512),
]


def _convolutions() -> list[KernelCase]:
    cases = []
    for batch, c_in, c_out, side, filter_, stride, groups in (
        _CONVOLUTIONS + _WIDE_CONVOLUTIONS + _GROUPED_CONVOLUTIONS
    ):
        label = f"batch={batch} c={c_in},{c_out} side={side} filter={filter_} stride={stride} groups={groups}"
        geometry = _Geometry(stride, (filter_ // 2 if stride < filter_ else 0), groups)
        x, w = floats(batch, c_in, side, side), floats(c_out, c_in // groups, filter_, filter_)
        out = (side + 2 * geometry.padding - filter_) // stride + 1
        cases.append(kernel_case("convolution", label, geometry.forward, x, w, floats(c_out)))
        gradient = floats(batch, c_out, out, out)
        backward = geometry.backward_weight if c_in == 3 else geometry.backward
        cases.append(kernel_case("convolution_backward", label, backward, gradient, x, w))
    return cases


@dataclass(frozen=True)
class _Geometry:
    stride: int
    padding: int
    groups: int

    def forward(self, x: Tensor, w: Tensor, bias: Tensor) -> Any:
        return aten.convolution(
            x, w, bias, [self.stride] * 2, [self.padding] * 2, [1, 1], False, [0, 0], self.groups
        )

    def backward(self, gradient: Tensor, x: Tensor, w: Tensor) -> Any:
        return self._backward(gradient, x, w, [True, True, True])

    def backward_weight(self, gradient: Tensor, x: Tensor, w: Tensor) -> Any:
        return self._backward(gradient, x, w, [False, True, True])

    def _backward(self, gradient: Tensor, x: Tensor, w: Tensor, mask: list[bool]) -> Any:
        return aten.convolution_backward(
            gradient,
            x,
            w,
            [w.shape[0]],
            [self.stride] * 2,
            [self.padding] * 2,
            [1, 1],
            False,
            [0, 0],
            self.groups,
            mask,
        )


def _recurrent() -> list[KernelCase]:
    cases = []
    for steps, batch, inputs, hidden in (
        (4, 4, 32, 32),
        (8, 16, 64, 64),
        (16, 32, 64, 128),
        (32, 8, 128, 128),
        (24, 32, 96, 256),
        (48, 16, 128, 192),
        (12, 64, 256, 256),
        (64, 16, 64, 96),
        (16, 16, 384, 384),
        (32, 4, 256, 512),
        (40, 24, 200, 320),
        (56, 48, 160, 224),
    ):
        label = f"steps={steps} batch={batch} inputs={inputs} hidden={hidden}"
        x, h = floats(steps, batch, inputs), floats(1, batch, hidden)
        w = (_small(4 * hidden, inputs), _small(4 * hidden, hidden), floats(4 * hidden), floats(4 * hidden))
        layer = _RecurrentLayer(hidden)
        cases.append(kernel_case("mkldnn_rnn_layer", label, layer.forward, x, *w, h, h))
        cases.append(kernel_case("mkldnn_rnn_layer_backward", label, layer.backward, layer.saved(x, w, h)))
        gates = floats(batch * steps, 4 * hidden)
        cases.append(kernel_case("sigmoid_gates", label, lambda g: aten.sigmoid(g), gates))
    return cases


def _small(*shape: int) -> Callable[[str], Tensor]:
    return lambda device: torch.full(shape, 0.01, device=device)


@dataclass(frozen=True)
class _RecurrentLayer:
    hidden: int

    def forward(self, x: Tensor, w0: Tensor, w1: Tensor, w2: Tensor, w3: Tensor, h: Tensor, c: Tensor) -> Any:
        return aten.mkldnn_rnn_layer(
            x, w0, w1, w2, w3, h[0], c[0], False, [], 2, self.hidden, 1, True, False, False, True
        )

    def saved(
        self, x: Callable[[str], Tensor], w: Sequence[Callable[[str], Tensor]], h: Callable[[str], Tensor]
    ) -> Callable[[str], list[Tensor]]:
        def make(device: str) -> list[Tensor]:
            inputs = [x(device), *(one(device) for one in w), h(device), h(device)]
            with torch.enable_grad():
                inputs[1].requires_grad_()
                outputs = self.forward(*inputs)
            return [tensor.detach() for tensor in (*inputs, *outputs)]

        return make

    def backward(self, saved: list[Tensor]) -> Any:
        x, w0, w1, w2, w3, h, c, y, hy, cy, workspace = saved
        return aten.mkldnn_rnn_layer_backward(
            x,
            w0,
            w1,
            w2,
            w3,
            h[0],
            c[0],
            y,
            hy,
            cy,
            y,
            hy,
            cy,
            False,
            2,
            self.hidden,
            1,
            True,
            True,
            False,
            [],
            False,
            workspace,
        )
