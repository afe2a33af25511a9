"""The designed grid: which operators are timed, on which shapes.

Sizes are spaced evenly in their logarithm over what steps of small models ask for, up to about 1 GFLOP
and 64 MB; shapes of products, of which the space is larger, are a fixed pseudo-random sample of it. What
work a case is, the recorder says: the case is run once on symbolic tensors, so that the rules by which a
forecast counts and those by which a measurement does cannot differ.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from perfcast.core.operation import Operation
from perfcast.units import MIB
from perfcast.workload.recorder import Recorder

aten = torch.ops.aten

#: A case takes turns on copies of its arguments that fill this much, since a step's tensors do not
#: wait in the nearest cache for the operator that reads them.
_WORKING_SET_BYTES = 24 * MIB
_MOST_COPIES = 32

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class KernelCase:
    """One operator on one shape.

    Attributes:
        key: Name that is stable over runs: 'addmm m=64 n=64 k=64'.
        make: New arguments on a device.
        run: The operator; its result is kept for a while, as a program would.
    """

    key: str
    make: Callable[[str], Arguments]
    run: Callable[..., Any]


def operation_of_case(case: KernelCase) -> Operation:
    """What the recorder makes of the case: the one operation that is not free.

    Raises:
        ValueError: The case runs none or several.
    """
    with FakeTensorMode(allow_non_fake_inputs=True):
        arguments = case.make("cpu")
        recorder = Recorder(nn.Identity())
        recorder.register([t for t in torch.utils._pytree.tree_leaves(arguments) if isinstance(t, Tensor)], "input")
        with torch.no_grad(), recorder:
            case.run(*arguments)
    issued = [recorder.operations[node.operation] for node in recorder.nodes]
    issued = [operation for operation in issued if not operation.is_free]
    if len(issued) != 1:
        raise ValueError(f"{case.key}: expected one operation, recorded {[o.name for o in issued]}")
    return issued[0]


def prepare(case: KernelCase, device: str) -> Callable[[], None]:
    """A call without arguments that runs the case on the next copy of its arguments."""
    first = case.make(device)
    size = max(_bytes_of(first), 1)
    copies = max(1, min(_MOST_COPIES, _WORKING_SET_BYTES // size))
    turns: Iterator[Arguments] = itertools.cycle([first, *(case.make(device) for _ in range(copies - 1))])
    run = case.run
    with torch.no_grad():
        result_bytes = max(_bytes_of(run(*first)), 1)
    kept: deque[Any] = deque(maxlen=max(1, min(copies, _WORKING_SET_BYTES // result_bytes)))

    def call() -> None:
        kept.append(run(*next(turns)))

    return call


def _bytes_of(value: Any) -> int:
    leaves = torch.utils._pytree.tree_leaves(value)
    storages = {id(t): t.untyped_storage().nbytes() for t in leaves if isinstance(t, Tensor)}
    return sum(storages.values())


def design(device: str, quick: bool = False) -> list[KernelCase]:
    """All cases; a quick grid is every third of each builder's, ends kept."""
    cases: list[KernelCase] = []
    for builder in _BUILDERS:
        mine = builder()
        if quick:
            mine = [c for i, c in enumerate(mine) if i % 3 == 0 or i == len(mine) - 1]
        cases.extend(mine)
    if device == "cuda":
        cases = [c for c in cases if not c.key.startswith(("mkldnn", "attention", "first_touch"))]
    return cases


# ---- helpers -----------------------------------------------------------------------------------


def _floats(*shape: int) -> Callable[[str], Tensor]:
    return lambda device: torch.full(shape, 0.5, device=device)


def _case(name: str, label: str, run: Callable[..., Any], *makers: Callable[[str], Any]) -> KernelCase:
    return KernelCase(f"{name} {label}", lambda device: tuple(make(device) for make in makers), run)


def _integers(high: int, *shape: int) -> Callable[[str], Tensor]:
    """Spread over the table by a fixed stride, so that lookups do not repeat a cached row."""
    count = math.prod(shape)

    def make(device: str) -> Tensor:
        return ((torch.arange(count, device=device) * 7919) % high).reshape(shape)

    return make


def _log_spaced(low: float, high: float, count: int) -> list[int]:
    return sorted({round(v) for v in np.geomspace(low, high, count)})


def _sampled_products(seed: int, count: int, most_flops: float, most_bytes: float) -> list[tuple[int, int, int]]:
    """(m, n, k) spaced evenly in the logarithm of each, multiples of 8 mostly, within the limits."""
    generator = np.random.default_rng(seed)
    found: list[tuple[int, int, int]] = []
    while len(found) < count:
        m, n, k = (int(v) for v in np.exp(generator.uniform(np.log(8), np.log(4096), size=3)))
        if generator.random() < 0.85:
            m, n, k = (max(8, round(v / 8) * 8) for v in (m, n, k))
        traffic = 4 * (m * n + n * k + m * k)
        if 2 * m * n * k <= most_flops and traffic <= most_bytes:
            found.append((m, n, k))
    return found


# ---- products ----------------------------------------------------------------------------------


def _products() -> list[KernelCase]:
    cases = []
    for m, n, k in [*_sampled_products(1, 44, 1.2e9, 48e6), (16, 16, 16), (512, 512, 512), (1024, 768, 768)]:
        label = f"m={m} n={n} k={k}"
        cases.append(_case("addmm", label, lambda b, x, w: aten.addmm(b, x, w.t()), _floats(n), _floats(m, k), _floats(n, k)))
    for m, n, k in [*_sampled_products(2, 36, 1.2e9, 48e6), (16, 16, 16), (512, 512, 512)]:
        label = f"m={m} n={n} k={k}"
        cases.append(_case("mm_nn", label, lambda a, b: aten.mm(a, b), _floats(m, k), _floats(k, n)))
    for m, n, k in [*_sampled_products(3, 40, 1.2e9, 48e6), (16, 16, 16), (512, 512, 512)]:
        label = f"m={m} n={n} k={k}"
        cases.append(_case("mm_tn", label, lambda a, b: aten.mm(a.t(), b), _floats(k, m), _floats(k, n)))
    return cases


def _batched_products() -> list[KernelCase]:
    cases = []
    generator = np.random.default_rng(4)
    for index in range(42):
        batch = int(np.exp(generator.uniform(np.log(4), np.log(256))))
        m, n = (max(8, round(v / 8) * 8) for v in np.exp(generator.uniform(np.log(16), np.log(512), size=2)))
        k = max(8, round(float(np.exp(generator.uniform(np.log(16), np.log(512)))) / 8) * 8)
        if 2 * batch * m * n * k > 1.2e9 or 4 * batch * (m * n + n * k + m * k) > 48e6:
            batch = max(1, int(batch * min(1.2e9 / (2 * batch * m * n * k), 12e6 / (batch * (m * n + n * k + m * k)))))
        label = f"batch={batch} m={m} n={n} k={k}"
        match index % 3:
            case 0:
                cases.append(_case("bmm_nn", label, lambda a, b: aten.bmm(a, b), _floats(batch, m, k), _floats(batch, k, n)))
            case 1:
                run = lambda a, b: aten.bmm(a, b.transpose(1, 2))  # noqa: E731
                cases.append(_case("bmm_nt", label, run, _floats(batch, m, k), _floats(batch, n, k)))
            case 2:
                run = lambda a, b: aten.bmm(a.transpose(1, 2), b)  # noqa: E731
                cases.append(_case("bmm_tn", label, run, _floats(batch, k, m), _floats(batch, k, n)))
    return cases


def _vector_products() -> list[KernelCase]:
    return [
        _case("mv", f"m={size} k={size}", lambda a, x: aten.mv(a, x), _floats(size, size), _floats(size))
        for size in _log_spaced(32, 3000, 7)
    ]


def _attentions() -> list[KernelCase]:
    cases = []
    shapes = [(1, 2, 16, 32), (2, 4, 64, 32), (4, 4, 64, 64), (8, 4, 128, 32), (4, 8, 128, 64), (2, 8, 256, 64),
              (8, 8, 197, 64), (1, 8, 512, 64), (4, 12, 256, 64), (16, 3, 197, 64), (2, 8, 512, 32), (2, 16, 384, 64),
              (1, 4, 1024, 64), (4, 8, 96, 128), (32, 4, 50, 48)]  # fmt: skip
    for batch, heads, length, size in shapes:
        for causal in (False, True):  # an unmasked kernel does not skip, a causal one does
            label = f"batch={batch} heads={heads} length={length} size={size} causal={int(causal)}"
            # [batch, length, heads, size] seen as [batch, heads, length, size], as a split of heads is.
            q = _heads(batch, length, heads, size)
            forward = _Attention(causal)
            cases.append(_case("attention", label, forward, q, q, q))
            cases.append(
                _case("attention_backward", label, _AttentionBackward(causal), q, q, q, q, q, _floats(batch, heads, length))
            )
    return cases


def _heads(batch: int, length: int, heads: int, size: int) -> Callable[[str], Tensor]:
    return lambda device: torch.full((batch, length, heads, size), 0.5, device=device).transpose(1, 2)


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


# ---- convolutions ------------------------------------------------------------------------------

#: batch, channels in, channels out, image side, filter side, stride, groups.
_CONVOLUTIONS = [
    (1, 3, 16, 32, 3, 1, 1), (8, 3, 32, 64, 3, 1, 1), (8, 3, 64, 96, 7, 2, 1), (4, 3, 96, 112, 16, 16, 1),
    (8, 16, 32, 32, 3, 1, 1), (16, 32, 32, 28, 3, 1, 1), (8, 32, 64, 56, 3, 2, 1), (16, 64, 64, 16, 3, 1, 1),
    (4, 64, 64, 56, 3, 1, 1), (8, 64, 128, 28, 3, 2, 1), (8, 128, 128, 14, 3, 1, 1), (2, 128, 256, 28, 1, 1, 1),
    (16, 256, 64, 14, 1, 1, 1), (8, 256, 256, 7, 3, 1, 1), (4, 256, 512, 7, 3, 2, 1), (16, 64, 256, 14, 1, 1, 1),
    (32, 8, 8, 16, 3, 1, 1), (2, 24, 48, 40, 5, 1, 1), (4, 512, 512, 7, 1, 1, 1),
]  # fmt: skip
_GROUPED_CONVOLUTIONS = [
    (1, 16, 16, 16, 3, 1, 16), (4, 32, 32, 28, 3, 1, 32), (8, 64, 64, 28, 3, 1, 64), (4, 96, 96, 56, 3, 2, 96),
    (8, 128, 128, 14, 3, 1, 128), (16, 256, 256, 14, 3, 1, 256), (8, 192, 192, 28, 5, 1, 192), (16, 512, 512, 7, 3, 1, 512),
]  # fmt: skip


def _convolutions() -> list[KernelCase]:
    cases = []
    for batch, c_in, c_out, side, filter_, stride, groups in _CONVOLUTIONS + _GROUPED_CONVOLUTIONS:
        label = f"batch={batch} c={c_in},{c_out} side={side} filter={filter_} stride={stride} groups={groups}"
        geometry = _Geometry(stride, (filter_ // 2 if stride < filter_ else 0), groups)
        x, w = _floats(batch, c_in, side, side), _floats(c_out, c_in // groups, filter_, filter_)
        out = (side + 2 * geometry.padding - filter_) // stride + 1
        cases.append(_case("convolution", label, geometry.forward, x, w, _floats(c_out)))
        gradient = _floats(batch, c_out, out, out)
        backward = geometry.backward_weight if c_in == 3 else geometry.backward
        cases.append(_case("convolution_backward", label, backward, gradient, x, w))
    return cases


@dataclass(frozen=True)
class _Geometry:
    stride: int
    padding: int
    groups: int

    def forward(self, x: Tensor, w: Tensor, bias: Tensor) -> Any:
        return aten.convolution(x, w, bias, [self.stride] * 2, [self.padding] * 2, [1, 1], False, [0, 0], self.groups)

    def backward(self, gradient: Tensor, x: Tensor, w: Tensor) -> Any:
        return self._backward(gradient, x, w, [True, True, True])

    def backward_weight(self, gradient: Tensor, x: Tensor, w: Tensor) -> Any:
        return self._backward(gradient, x, w, [False, True, True])

    def _backward(self, gradient: Tensor, x: Tensor, w: Tensor, mask: list[bool]) -> Any:
        return aten.convolution_backward(
            gradient, x, w, [w.shape[0]], [self.stride] * 2, [self.padding] * 2, [1, 1], False, [0, 0], self.groups, mask
        )  # fmt: skip


def _pooling() -> list[KernelCase]:
    cases = []
    for batch, channels, side in ((1, 16, 16), (2, 24, 20), (4, 32, 16), (8, 16, 24), (8, 32, 32), (4, 96, 28), (16, 64, 32),
                                  (8, 64, 56), (16, 128, 14), (16, 64, 64)):
        label = f"batch={batch} c={channels} side={side}"
        x, half = _floats(batch, channels, side, side), _floats(batch, channels, side // 2, side // 2)
        indices = _integers(side * side, batch, channels, side // 2, side // 2)
        one = _floats(batch, channels, 1, 1)
        args = ([2, 2], [2, 2], [0, 0])
        cases += [
            _case("max_pool", label, lambda x: aten.max_pool2d_with_indices(x, [2, 2], [2, 2]), x),
            _case("max_pool_backward", label, lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, *args, [1, 1], False, i), half, x, indices),
            _case("avg_pool", label, lambda x: aten.avg_pool2d(x, [2, 2], [2, 2]), x),
            _case("avg_pool_backward", label, lambda g, x: aten.avg_pool2d_backward(g, x, *args, False, True, None), half, x),
            _case("adaptive_pool", label, lambda x: aten._adaptive_avg_pool2d(x, [1, 1]), x),
            _case("adaptive_pool_backward", label, lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), one, x),
        ]  # fmt: skip
    return cases


# ---- recurrent ---------------------------------------------------------------------------------


def _recurrent() -> list[KernelCase]:
    cases = []
    for steps, batch, inputs, hidden in ((4, 4, 32, 32), (8, 16, 64, 64), (16, 32, 64, 128), (32, 8, 128, 128),
                                         (24, 32, 96, 256), (48, 16, 128, 192), (12, 64, 256, 256), (64, 16, 64, 96),
                                         (16, 16, 384, 384), (32, 4, 256, 512)):  # fmt: skip
        label = f"steps={steps} batch={batch} inputs={inputs} hidden={hidden}"
        x, h = _floats(steps, batch, inputs), _floats(1, batch, hidden)
        w = (_small(4 * hidden, inputs), _small(4 * hidden, hidden), _floats(4 * hidden), _floats(4 * hidden))
        layer = _RecurrentLayer(hidden)
        cases.append(_case("mkldnn_rnn_layer", label, layer.forward, x, *w, h, h))
        cases.append(_case("mkldnn_rnn_layer_backward", label, layer.backward, layer.saved(x, w, h)))
        gates = _floats(batch * steps, 4 * hidden)
        cases.append(_case("sigmoid_gates", label, lambda g: aten.sigmoid(g), gates))
    return cases


def _small(*shape: int) -> Callable[[str], Tensor]:
    return lambda device: torch.full(shape, 0.01, device=device)


@dataclass(frozen=True)
class _RecurrentLayer:
    hidden: int

    def forward(self, x: Tensor, w0: Tensor, w1: Tensor, w2: Tensor, w3: Tensor, h: Tensor, c: Tensor) -> Any:
        return aten.mkldnn_rnn_layer(
            x, w0, w1, w2, w3, h[0], c[0], False, [], 2, self.hidden, 1, True, False, False, True
        )  # fmt: skip

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
            x, w0, w1, w2, w3, h[0], c[0], y, hy, cy, y, hy, cy, False, 2, self.hidden, 1, True, True, False, [], False,
            workspace,
        )  # fmt: skip


# ---- rows --------------------------------------------------------------------------------------


def _rows() -> list[KernelCase]:
    cases = []
    for rows, width in ((16, 16), (64, 64), (128, 256), (512, 128), (256, 768), (1024, 256), (2048, 512), (4096, 256), (1024, 1024),
                        (8192, 128), (8192, 512), (4096, 1024)):  # fmt: skip
        label = f"rows={rows} width={width}"
        x, w = _floats(rows, width), _floats(width)
        stat = _floats(rows, 1)
        cases += [
            _case("layer_norm", label, _layer_norm, x, w, w),
            _case("layer_norm_backward", label, _layer_norm_backward, x, x, stat, stat, w, w),
            _case("softmax", label, lambda x: aten._softmax(x, -1, False), x),
            _case("softmax_backward", label, lambda g, y: aten._softmax_backward_data(g, y, -1, torch.float32), x, x),
            _case("sum_columns", label, lambda x: aten.sum(x, [0], True), x),
            _case("sum_rows", label, lambda x: aten.sum(x, [1]), x),
            _case("mean_rows", label, lambda x: aten.mean(x, [1], True), x),
        ]
    for rows, width in ((16, 500), (64, 1000), (100, 3000), (512, 2000), (1024, 4000), (256, 10000), (1024, 8000), (128, 50000)):
        label, x = f"rows={rows} width={width}", _floats(rows, width)
        cases += [
            _case("log_softmax", label, lambda x: aten._log_softmax(x, -1, False), x),
            _case("log_softmax_backward", label, lambda g, y: aten._log_softmax_backward_data(g, y, -1, torch.float32), x, x),
            _case("nll_loss", label, lambda x, t: aten.nll_loss_forward(x, t, None, 1, -100), x, _integers(width, rows)),
            _case("nll_loss_backward", label, _nll_loss_backward, _floats(), x, _integers(width, rows), _floats()),
        ]  # fmt: skip
    for batch, heads, length in ((1, 2, 32), (2, 4, 64), (4, 4, 96), (8, 4, 112), (8, 8, 128), (4, 8, 197), (2, 12, 256)):
        x = _floats(batch, heads, length, length)
        label = f"batch={batch} heads={heads} length={length}"
        cases.append(_case("safe_softmax", label, lambda x: aten._safe_softmax(x, -1), x))
        cases.append(_case("square_softmax_backward", label, lambda g, y: aten._softmax_backward_data(g, y, -1, torch.float32), x, x))
    return cases


def _layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return aten.native_layer_norm(x, [x.shape[-1]], w, b, 1e-5)


def _layer_norm_backward(g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, w: Tensor, b: Tensor) -> Any:
    return aten.native_layer_norm_backward(g, x, [x.shape[-1]], mean, rstd, w, b, [True, True, True])


def _nll_loss_backward(g: Tensor, x: Tensor, t: Tensor, total: Tensor) -> Any:
    return aten.nll_loss_backward(g, x, t, None, 1, -100, total)


def _batch_norms() -> list[KernelCase]:
    cases = []
    for batch, channels, side in ((1, 16, 8), (2, 16, 12), (4, 32, 16), (2, 64, 28), (8, 32, 32), (4, 128, 20), (16, 64, 16), (8, 64, 56), (16, 64, 32), (8, 256, 14), (16, 512, 7),
                                  (16, 96, 56)):  # fmt: skip
        label = f"batch={batch} c={channels} side={side}"
        x, c = _floats(batch, channels, side, side), _floats(channels)
        cases.append(_case("batch_norm", label, lambda x, w, b, m, v: aten.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-5), x, c, c, c, c))
        cases.append(_case("batch_norm_evaluate", label, lambda x, w, b, m, v: aten.native_batch_norm(x, w, b, m, v, False, 0.1, 1e-5), x, c, c, c, c))
        run = lambda g, x, w, m, v: aten.native_batch_norm_backward(g, x, w, m, v, m, v, True, 1e-5, [True] * 3)  # noqa: E731
        cases.append(_case("batch_norm_backward", label, run, x, x, c, c, c))
    return cases


# ---- element-wise and movement -----------------------------------------------------------------


def _elementwise() -> list[KernelCase]:
    cases = []
    sizes = _log_spaced(16, 4e6, 13)
    for size in sizes:
        label, x = f"n={size}", _floats(size)
        mask = _Mask(size)
        cases += [
            _case("add", label, lambda a, b: aten.add(a, b), x, x),
            _case("mul", label, lambda a, b: aten.mul(a, b), x, x),
            _case("mul_scalar", label, lambda a: aten.mul(a, 0.5), x),
            _case("relu", label, lambda a: aten.relu(a), x),
            _case("threshold_backward", label, lambda g, a: aten.threshold_backward(g, a, 0), x, x),
            _case("where", label, lambda c, a, b: aten.where(c, a, b), mask, x, x),
            _case("sqrt", label, lambda a: aten.sqrt(a), x),
            _case("div", label, lambda a, b: aten.div(a, b), x, x),
            _case("tanh", label, lambda a: aten.tanh(a), x),
            _case("gelu", label, lambda a: aten.gelu(a), x),
            _case("gelu_backward", label, lambda g, a: aten.gelu_backward(g, a), x, x),
            _case("silu", label, lambda a: aten.silu(a), x),
            _case("silu_backward", label, lambda g, a: aten.silu_backward(g, a), x, x),
            _case("exp", label, lambda a: aten.exp(a), x),
            _case("mul_", label, lambda a: aten.mul_(a, 0.999), x),
            _case("add_", label, lambda a, b: aten.add_(a, b), x, x),
            _case("lerp_", label, lambda a, b: aten.lerp_(a, b, 0.1), x, x),
            _case("addcmul_", label, lambda a, b, c: aten.addcmul_(a, b, c, value=0.1), x, x, x),
            _case("addcdiv_", label, lambda a, b, c: aten.addcdiv_(a, b, c, value=0.1), x, x, x),
            _case("bernoulli_", label, lambda a: aten.bernoulli_(a, 0.9), x),
            _case("zeros", label, _Zeros(size), x),
        ]
    for rows, width in ((16, 16), (128, 64), (512, 256), (2048, 256), (2048, 1024)):
        label = f"rows={rows} width={width}"
        x = _floats(rows, width)
        scattered = _scattered(rows, width)
        cases += [
            _case("add_row", label, lambda a, b: aten.add(a, b), x, _floats(width)),
            _case("mul_column", label, lambda a, b: aten.mul(a, b), x, _floats(rows, 1)),
            _case("add_scattered", label, lambda a, b: aten.add(a, b), x, scattered),
            _case("mul_scattered", label, lambda a, b: aten.mul(a, b), x, scattered),
            _case("sub_scattered", label, lambda a, b: aten.sub(a, b), x, scattered),
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
    for size in _log_spaced(64, 4e6, 9):
        x = _floats(size)
        cases.append(_case("clone", f"n={size}", lambda a: aten.clone(a), x))
        cases.append(_case("copy_", f"n={size}", lambda a, b: aten.copy_(a, b), x, x))
        cases.append(_case("cat", f"n={size}", lambda a, b: aten.cat([a, b]), x, x))
    for batch, length, heads, size in ((2, 16, 2, 16), (4, 64, 4, 32), (8, 128, 4, 64), (8, 256, 8, 64)):
        label = f"batch={batch} length={length} heads={heads} size={size}"
        x = _heads(batch, length, heads, size)
        run = lambda a: aten.clone(a, memory_format=torch.contiguous_format)  # noqa: E731
        cases.append(_case("clone_heads", label, run, x))
        cases.append(_case("clone_keys", label, lambda a: aten.clone(a.transpose(-1, -2), memory_format=torch.contiguous_format), x))
        cases.append(_case("slice_backward", label, _SliceBackward(length), _floats(batch, length // 2, heads * size)))
    for rows, width in ((16, 16), (128, 64), (512, 256), (2048, 256), (2048, 1024)):
        run = lambda a: aten.clone(a, memory_format=torch.contiguous_format)  # noqa: E731
        cases.append(_case("clone_scattered", f"rows={rows} width={width}", run, _scattered(rows, width)))
    return cases


@dataclass(frozen=True)
class _SliceBackward:
    length: int

    def __call__(self, gradient: Tensor) -> Any:
        sizes = [gradient.shape[0], self.length, gradient.shape[2]]
        return aten.slice_backward(gradient, sizes, 1, 0, gradient.shape[1], 1)


def _lookups() -> list[KernelCase]:
    cases = []
    for rows, width, count in ((100, 16, 32), (1000, 64, 256), (8000, 128, 512), (8000, 256, 2048), (30000, 64, 1024), (16000, 384, 1024),
                               (20000, 256, 4096), (512, 256, 512)):  # fmt: skip
        label = f"rows={rows} width={width} count={count}"
        table, indices, gradient = _floats(rows, width), _integers(rows, count), _floats(count, width)
        offsets = lambda device, n=count: torch.arange(0, n, 4, device=device)  # noqa: E731
        bags = count // 4
        cases += [
            _case("embedding", label, lambda w, i: aten.embedding(w, i), table, indices),
            _case("embedding_dense_backward", label, _EmbeddingBackward(rows), gradient, indices),
            _case("embedding_bag", label, lambda w, i, o: aten._embedding_bag(w, i, o), table, indices, offsets),
            _case("embedding_bag_backward", label, _BagBackward(rows), _floats(bags, width), indices, _BagOf(count),
                  _integers(1, bags), _integers(1, bags)),
        ]  # fmt: skip
    for batch, side, picks in ((64, 9, 36), (512, 9, 36), (512, 17, 136), (1024, 27, 351), (2048, 9, 36)):
        label = f"batch={batch} side={side} picks={picks}"
        x, rows, columns = _floats(batch, side, side), _integers(side, picks), _integers(side, picks)
        cases.append(_case("index", label, lambda x, r, c: aten.index(x, [None, r, c]), x, rows, columns))
        run = lambda x, r, c, v: aten._index_put_impl_(x, [None, r, c], v, True, True)  # noqa: E731
        cases.append(_case("index_put", label, run, x, rows, columns, _floats(batch, picks)))
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
    for size in _log_spaced(32, 2e5, 5):
        label, x = f"n={size}", _floats(size)
        cases.append(_case("bce", label, lambda x, t: aten.binary_cross_entropy_with_logits(x, t), x, x))
        cases.append(_case("mse", label, lambda x, t: aten.mse_loss(x, t), x, x))
        cases.append(_case("mse_backward", label, lambda g, x, t: aten.mse_loss_backward(g, x, t, 1), _floats(), x, x))
    return cases


_BUILDERS: tuple[Callable[[], list[KernelCase]], ...] = (
    _products, _batched_products, _vector_products, _attentions, _convolutions, _pooling, _recurrent, _rows, _batch_norms,
    _elementwise, _movement, _lookups, _losses,
)  # fmt: skip
