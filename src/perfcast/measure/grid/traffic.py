"""Cases whose time is mostly traffic: rows, element-wise, movement, look-ups, pooling, losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from perfcast.measure.kernels import KernelCase, floats, integers, kernel_case, log_spaced, split_heads

aten = torch.ops.aten


def traffic_cases() -> list[KernelCase]:
    """All of them."""
    builders = (_pooling, _rows, _batch_norms, _elementwise, _movement, _lookups, _losses)
    return [case for builder in builders for case in builder()]


def _pooling() -> list[KernelCase]:
    cases = []
    args = ([2, 2], [2, 2], [0, 0])
    for batch, channels, side in (
        (1, 16, 16),
        (2, 24, 20),
        (4, 32, 16),
        (8, 16, 24),
        (8, 32, 32),
        (4, 96, 28),
        (16, 64, 32),
        (8, 64, 56),
        (16, 128, 14),
        (16, 64, 64),
    ):
        label = f"batch={batch} c={channels} side={side}"
        x, half = floats(batch, channels, side, side), floats(batch, channels, side // 2, side // 2)
        indices = integers(side * side, batch, channels, side // 2, side // 2)
        one = floats(batch, channels, 1, 1)
        cases += [
            kernel_case("max_pool", label, lambda x: aten.max_pool2d_with_indices(x, [2, 2], [2, 2]), x),
            kernel_case(
                "max_pool_backward",
                label,
                lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, *args, [1, 1], False, i),
                half,
                x,
                indices,
            ),
            kernel_case("avg_pool", label, lambda x: aten.avg_pool2d(x, [2, 2], [2, 2]), x),
            kernel_case(
                "avg_pool_backward",
                label,
                lambda g, x: aten.avg_pool2d_backward(g, x, *args, False, True, None),
                half,
                x,
            ),
            kernel_case("adaptive_pool", label, lambda x: aten._adaptive_avg_pool2d(x, [1, 1]), x),
            kernel_case(
                "adaptive_pool_backward", label, lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), one, x
            ),
        ]
    return cases


def _rows() -> list[KernelCase]:
    cases = []
    for rows, width in (
        (16, 16),
        (64, 64),
        (128, 256),
        (512, 128),
        (256, 768),
        (1024, 256),
        (2048, 512),
        (4096, 256),
        (1024, 1024),
        (8192, 128),
        (8192, 512),
        (4096, 1024),
    ):
        label = f"rows={rows} width={width}"
        x, w = floats(rows, width), floats(width)
        stat = floats(rows, 1)
        cases += [
            kernel_case("layer_norm", label, _layer_norm, x, w, w),
            kernel_case("layer_norm_backward", label, _layer_norm_backward, x, x, stat, stat, w, w),
            kernel_case("softmax", label, lambda x: aten._softmax(x, -1, False), x),
            kernel_case(
                "softmax_backward",
                label,
                lambda g, y: aten._softmax_backward_data(g, y, -1, torch.float32),
                x,
                x,
            ),
            kernel_case("sum_columns", label, lambda x: aten.sum(x, [0], True), x),
            kernel_case("sum_rows", label, lambda x: aten.sum(x, [1]), x),
            kernel_case("mean_rows", label, lambda x: aten.mean(x, [1], True), x),
        ]
    for rows, width in ((1, 16), (4, 128), (8, 512), (64, 256), (256, 512)):
        label = f"rows={rows} width={width}"
        cases.append(kernel_case("cumsum", label, lambda x: aten.cumsum(x, -1), floats(rows, width)))
    for rows, width in (
        (16, 500),
        (64, 1000),
        (100, 3000),
        (512, 2000),
        (1024, 4000),
        (256, 10000),
        (1024, 8000),
        (128, 50000),
    ):
        label, x = f"rows={rows} width={width}", floats(rows, width)
        cases += [
            kernel_case("log_softmax", label, lambda x: aten._log_softmax(x, -1, False), x),
            kernel_case(
                "log_softmax_backward",
                label,
                lambda g, y: aten._log_softmax_backward_data(g, y, -1, torch.float32),
                x,
                x,
            ),
            kernel_case(
                "nll_loss",
                label,
                lambda x, t: aten.nll_loss_forward(x, t, None, 1, -100),
                x,
                integers(width, rows),
            ),
            kernel_case(
                "nll_loss_backward", label, _nll_loss_backward, floats(), x, integers(width, rows), floats()
            ),
        ]
    for batch, heads, length in (
        (1, 2, 32),
        (2, 4, 64),
        (4, 4, 96),
        (8, 4, 112),
        (8, 8, 128),
        (4, 8, 197),
        (2, 12, 256),
    ):
        x = floats(batch, heads, length, length)
        label = f"batch={batch} heads={heads} length={length}"
        cases.append(kernel_case("safe_softmax", label, lambda x: aten._safe_softmax(x, -1), x))
        cases.append(
            kernel_case(
                "square_softmax_backward",
                label,
                lambda g, y: aten._softmax_backward_data(g, y, -1, torch.float32),
                x,
                x,
            )
        )
    return cases


def _layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return aten.native_layer_norm(x, [x.shape[-1]], w, b, 1e-5)


def _layer_norm_backward(g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, w: Tensor, b: Tensor) -> Any:
    return aten.native_layer_norm_backward(g, x, [x.shape[-1]], mean, rstd, w, b, [True, True, True])


def _nll_loss_backward(g: Tensor, x: Tensor, t: Tensor, total: Tensor) -> Any:
    return aten.nll_loss_backward(g, x, t, None, 1, -100, total)


def _batch_norms() -> list[KernelCase]:
    cases = []
    for batch, channels, side in (
        (1, 16, 8),
        (2, 16, 12),
        (4, 32, 16),
        (2, 64, 28),
        (8, 32, 32),
        (4, 128, 20),
        (16, 64, 16),
        (8, 64, 56),
        (16, 64, 32),
        (8, 256, 14),
        (16, 512, 7),
        (16, 96, 56),
    ):
        label = f"batch={batch} c={channels} side={side}"
        x, c = floats(batch, channels, side, side), floats(channels)
        cases.append(
            kernel_case(
                "batch_norm",
                label,
                lambda x, w, b, m, v: aten.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5),
                x,
                c,
                c,
                c,
                c,
            )
        )
        cases.append(
            kernel_case(
                "batch_norm_evaluate",
                label,
                lambda x, w, b, m, v: aten.native_batch_norm(x, w, b, m, v, False, 0.1, 1e-5),
                x,
                c,
                c,
                c,
                c,
            )
        )
        cases.append(kernel_case("batch_norm_backward", label, _batch_norm_backward, x, x, c, c, c))
    return cases


def _batch_norm_backward(g: Tensor, x: Tensor, w: Tensor, mean: Tensor, rstd: Tensor) -> Any:
    return aten.native_batch_norm_backward(g, x, w, mean, rstd, mean, rstd, True, 1e-5, [True] * 3)


def _elementwise() -> list[KernelCase]:
    cases = []
    sizes = log_spaced(16, 4e6, 13)
    for size in sizes:
        label, x = f"n={size}", floats(size)
        mask = _Mask(size)
        cases += [
            kernel_case("add", label, lambda a, b: aten.add(a, b), x, x),
            kernel_case("mul", label, lambda a, b: aten.mul(a, b), x, x),
            kernel_case("mul_scalar", label, lambda a: aten.mul(a, 0.5), x),
            kernel_case("relu", label, lambda a: aten.relu(a), x),
            kernel_case("threshold_backward", label, lambda g, a: aten.threshold_backward(g, a, 0), x, x),
            kernel_case("where", label, lambda c, a, b: aten.where(c, a, b), mask, x, x),
            kernel_case("sqrt", label, lambda a: aten.sqrt(a), x),
            kernel_case("div", label, lambda a, b: aten.div(a, b), x, x),
            kernel_case("tanh", label, lambda a: aten.tanh(a), x),
            kernel_case("gelu", label, lambda a: aten.gelu(a), x),
            kernel_case("gelu_backward", label, lambda g, a: aten.gelu_backward(g, a), x, x),
            kernel_case("silu", label, lambda a: aten.silu(a), x),
            kernel_case("silu_backward", label, lambda g, a: aten.silu_backward(g, a), x, x),
            kernel_case("exp", label, lambda a: aten.exp(a), x),
            kernel_case("mul_", label, lambda a: aten.mul_(a, 0.999), x),
            kernel_case("add_", label, lambda a, b: aten.add_(a, b), x, x),
            kernel_case("lerp_", label, lambda a, b: aten.lerp_(a, b, 0.1), x, x),
            kernel_case("addcmul_", label, lambda a, b, c: aten.addcmul_(a, b, c, value=0.1), x, x, x),
            kernel_case("addcdiv_", label, lambda a, b, c: aten.addcdiv_(a, b, c, value=0.1), x, x, x),
            kernel_case("bernoulli_", label, lambda a: aten.bernoulli_(a, 0.9), x),
            kernel_case("zeros", label, _Zeros(size), x),
        ]
    for rows, width in ((16, 16), (128, 64), (512, 256), (2048, 256), (2048, 1024)):
        label = f"rows={rows} width={width}"
        x = floats(rows, width)
        scattered = _scattered(rows, width)
        cases += [
            kernel_case("add_row", label, lambda a, b: aten.add(a, b), x, floats(width)),
            kernel_case("mul_column", label, lambda a, b: aten.mul(a, b), x, floats(rows, 1)),
            kernel_case("add_scattered", label, lambda a, b: aten.add(a, b), x, scattered),
            kernel_case("mul_scattered", label, lambda a, b: aten.mul(a, b), x, scattered),
            kernel_case("sub_scattered", label, lambda a, b: aten.sub(a, b), x, scattered),
        ]
    return cases


@dataclass(frozen=True)
class _Mask:
    size: int

    def __call__(self, device: str) -> Tensor:
        return (torch.arange(self.size, device=device) % 3) == 0


@dataclass(frozen=True)
class _Zeros:
    size: int

    def __call__(self, like: Tensor) -> Tensor:
        return aten.zeros_like(like)  # type: ignore[no-any-return]


def _scattered(rows: int, width: int) -> Callable[[str], Tensor]:
    return lambda device: torch.full((width, rows), 0.5, device=device).t()


def _movement() -> list[KernelCase]:
    cases = []
    for size in log_spaced(64, 4e6, 9):
        x = floats(size)
        cases.append(kernel_case("clone", f"n={size}", lambda a: aten.clone(a), x))
        cases.append(kernel_case("copy_", f"n={size}", lambda a, b: aten.copy_(a, b), x, x))
        cases.append(kernel_case("cat", f"n={size}", lambda a, b: aten.cat([a, b]), x, x))
    for batch, length, heads, size in ((2, 16, 2, 16), (4, 64, 4, 32), (8, 128, 4, 64), (8, 256, 8, 64)):
        label = f"batch={batch} length={length} heads={heads} size={size}"
        x = split_heads(batch, length, heads, size)
        run = lambda a: aten.clone(a, memory_format=torch.contiguous_format)  # noqa: E731
        cases.append(kernel_case("clone_heads", label, run, x))
        cases.append(
            kernel_case(
                "clone_keys",
                label,
                lambda a: aten.clone(a.transpose(-1, -2), memory_format=torch.contiguous_format),
                x,
            )
        )
        cases.append(
            kernel_case(
                "slice_backward", label, _SliceBackward(length), floats(batch, length // 2, heads * size)
            )
        )
    for rows, width in ((16, 16), (128, 64), (512, 256), (2048, 256), (2048, 1024)):
        run = lambda a: aten.clone(a, memory_format=torch.contiguous_format)  # noqa: E731
        cases.append(
            kernel_case("clone_scattered", f"rows={rows} width={width}", run, _scattered(rows, width))
        )
    return cases


@dataclass(frozen=True)
class _SliceBackward:
    length: int

    def __call__(self, gradient: Tensor) -> Any:
        sizes = [gradient.shape[0], self.length, gradient.shape[2]]
        return aten.slice_backward(gradient, sizes, 1, 0, gradient.shape[1], 1)


def _lookups() -> list[KernelCase]:
    cases = []
    for rows, width, count in (
        (100, 16, 32),
        (1000, 64, 256),
        (8000, 128, 512),
        (8000, 256, 2048),
        (30000, 64, 1024),
        (16000, 384, 1024),
        (20000, 256, 4096),
        (512, 256, 512),
    ):
        label = f"rows={rows} width={width} count={count}"
        table, indices, gradient = floats(rows, width), integers(rows, count), floats(count, width)
        offsets = lambda device, n=count: torch.arange(0, n, 4, device=device)  # noqa: E731
        bags = count // 4
        cases += [
            kernel_case("embedding", label, lambda w, i: aten.embedding(w, i), table, indices),
            kernel_case("embedding_dense_backward", label, _EmbeddingBackward(rows), gradient, indices),
            kernel_case(
                "embedding_bag", label, lambda w, i, o: aten._embedding_bag(w, i, o), table, indices, offsets
            ),
            kernel_case(
                "embedding_bag_backward",
                label,
                _BagBackward(rows),
                floats(bags, width),
                indices,
                _BagOf(count),
                integers(1, bags),
                integers(1, bags),
            ),
        ]
    for batch, side, picks in ((64, 9, 36), (512, 9, 36), (512, 17, 136), (1024, 27, 351), (2048, 9, 36)):
        label = f"batch={batch} side={side} picks={picks}"
        x, row, column = floats(batch, side, side), integers(side, picks), integers(side, picks)
        cases.append(kernel_case("index", label, lambda x, r, c: aten.index(x, [None, r, c]), x, row, column))
        run = lambda x, r, c, v: aten._index_put_impl_(x, [None, r, c], v, True, True)  # noqa: E731
        cases.append(kernel_case("index_put", label, run, x, row, column, floats(batch, picks)))
    return cases


@dataclass(frozen=True)
class _EmbeddingBackward:
    rows: int

    def __call__(self, gradient: Tensor, indices: Tensor) -> Any:
        return aten.embedding_dense_backward(gradient, indices, self.rows, -1, False)


@dataclass(frozen=True)
class _BagOf:
    """Which bag each lookup belongs to: four in turn."""

    count: int

    def __call__(self, device: str) -> Tensor:
        return torch.arange(self.count, device=device) // 4


@dataclass(frozen=True)
class _BagBackward:
    rows: int

    def __call__(self, gradient: Tensor, indices: Tensor, bag_of: Tensor, sizes: Tensor, most: Tensor) -> Any:
        return aten._embedding_bag_dense_backward(
            gradient, indices, bag_of, sizes, most, self.rows, False, 0, None, -1
        )


def _losses() -> list[KernelCase]:
    cases = []
    for size in log_spaced(32, 2e5, 5):
        label, x = f"n={size}", floats(size)
        cases.append(
            kernel_case("bce", label, lambda x, t: aten.binary_cross_entropy_with_logits(x, t), x, x)
        )
        cases.append(kernel_case("mse", label, lambda x, t: aten.mse_loss(x, t), x, x))
        cases.append(
            kernel_case(
                "mse_backward", label, lambda g, x, t: aten.mse_loss_backward(g, x, t, 1), floats(), x, x
            )
        )
    return cases
