"""Timing of single kernels on a CUDA device, as a step meets them: under load, from memory, without a host.

* Kernels are replayed as a CUDA graph, so that a short one is not paced by its launches.
* Operands rotate over more memory than the last cache holds, but for kernels that are meant to find them
  there.
* A large product runs until clocks have settled, before the first kernel and between groups; its own time,
  again and again, tells whether clocks fell.
* Cases of a group take turns, forwards and backwards, and the median of the rounds counts.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from perfcast.core.dtype import DType
from perfcast.errors import CalibrationError
from perfcast.measure.few.cases import FewCase
from perfcast.torch_internals.eager import tree_leaves
from perfcast.units import MIB

_CACHES = 3.0
_MOST_COPIES = 64
_WARM_UP_SECONDS = 3.0
_BETWEEN_SECONDS = 0.3
_ROUNDS = 7
_SAMPLE_SECONDS = 5e-3
_MOST_CALLS = 512
_LOAD_SIDE = 4096
_LOAD_CALLS = 20


@dataclass(frozen=True)
class Timed:
    """One case.

    Attributes:
        seconds: Median of the rounds; None where the case cannot run here.
        is_cold: Whether operands came from memory.
        reason: Why it cannot.
    """

    seconds: float | None
    is_cold: bool = True
    reason: str = ""


class Bench(Protocol):
    """Real hardware, or a stand-in for it."""

    @property
    def processor(self) -> str:
        """As the driver names it."""
        ...

    @property
    def setup(self) -> str:
        """Versions that the times hold for."""
        ...

    def time(self, cases: Sequence[FewCase]) -> list[Timed]:
        """Time a group of cases in turns."""
        ...

    def load_seconds(self) -> float:
        """Of one product of the load that keeps clocks where a long step has them."""
        ...


def open_bench(device: str) -> Bench:
    """The CUDA device of this machine.

    Args:
        device: 'cuda' or 'cuda:N'.

    Raises:
        CalibrationError: No such device here.
    """
    kind, _, number = device.partition(":")
    if kind != "cuda" or (number and not number.isdigit()):
        raise CalibrationError(f"'{device}' cannot be measured here; it is 'cuda' or 'cuda:N'")
    if not torch.cuda.is_available():
        raise CalibrationError(
            "PyTorch sees no CUDA device here; measure on the machine that has it (--json FILE), "
            "then bring the file: perfcast measure kernels --from FILE"
        )
    if number and int(number) >= torch.cuda.device_count():
        raise CalibrationError(f"no {device} here: PyTorch sees {torch.cuda.device_count()} CUDA devices")
    torch.cuda.set_device(int(number or 0))
    return CudaBench(f"cuda:{int(number or 0)}")


@dataclass
class CudaBench:
    """One CUDA device."""

    device: str
    _load: Callable[[], Any] | None = field(default=None, init=False)

    @property
    def processor(self) -> str:
        """As the driver names it."""
        return str(torch.cuda.get_device_name(self.device))

    @property
    def setup(self) -> str:
        """Versions of PyTorch and CUDA."""
        return f"torch {torch.__version__}, CUDA {torch.version.cuda}"

    def load_seconds(self) -> float:
        """Run the load for a while; returns the median of one product in the last half."""
        spent = _BETWEEN_SECONDS if self._load is not None else _WARM_UP_SECONDS
        self._load = load = self._load or self._make_load()
        samples: list[float] = []
        end = time.monotonic() + spent
        while time.monotonic() < end or len(samples) < 2:
            samples.append(_between_events(lambda: [load() for _ in range(_LOAD_CALLS)]) / _LOAD_CALLS)
        return statistics.median(samples[len(samples) // 2 :])

    def _make_load(self) -> Callable[[], Any]:
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        dtype, side = torch.bfloat16 if has_bf16 else torch.float16, _LOAD_SIDE
        a, b = (torch.randn(side, side, device=self.device).to(dtype) for _ in range(2))
        return lambda: torch.mm(a, b)

    def time(self, cases: Sequence[FewCase]) -> list[Timed]:
        """Time a group of cases in turns, forwards and backwards."""
        with torch.no_grad():
            prepared = [self._prepare(case) for case in cases]
            samples: list[list[float]] = [[] for _ in cases]
            for turn in range(_ROUNDS):
                order = list(range(len(cases)))
                for place in order if turn % 2 == 0 else reversed(order):
                    ready = prepared[place]
                    if isinstance(ready, _Replay):
                        samples[place].append(_between_events(ready.graph.replay) / ready.calls)
        found = [
            Timed(statistics.median(mine), ready.is_cold) if isinstance(ready, _Replay) else ready
            for ready, mine in zip(prepared, samples, strict=True)
        ]
        del prepared
        torch.cuda.empty_cache()
        return found

    def _prepare(self, case: FewCase) -> _Replay | Timed:
        """Capture some calls of a case; a kernel that this PyTorch or device lacks is said, not raised."""
        try:
            with _arithmetic(case.arithmetic):
                return self._capture(case)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            return Timed(None, reason="does not fit into the device's free memory")
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            return Timed(None, reason=f"PyTorch has no such kernel here ({str(error).splitlines()[0][:80]})")

    def _capture(self, case: FewCase) -> _Replay:
        first = case.case.make(self.device)
        size = max(sum(t.untyped_storage().nbytes() for t in tree_leaves(first) if isinstance(t, Tensor)), 1)
        cache = torch.cuda.get_device_properties(self.device).L2_cache_size or 64 * MIB
        wanted = 1 if case.is_warm else math.ceil(_CACHES * cache / size)
        copies = min(wanted, _MOST_COPIES)
        turns: Iterator[Any] = itertools.cycle(
            [first, *(case.case.make(self.device) for _ in range(copies - 1))]
        )
        kept: deque[Any] = deque(maxlen=copies)

        def call() -> None:
            kept.append(case.case.run(*next(turns)))

        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        once = _between_events(call)
        rounds = math.ceil(min(_SAMPLE_SECONDS / max(once, 1e-7), _MOST_CALLS) / copies)
        calls = max(1, rounds) * copies
        kept.clear()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        graph.replay()
        torch.cuda.synchronize()
        return _Replay(graph, calls, copies * size >= cache, (turns, kept))


@dataclass(frozen=True, eq=False)
class _Replay:
    """Captured calls; ``held`` keeps their operands alive."""

    graph: torch.cuda.CUDAGraph
    calls: int
    is_cold: bool
    held: object


def _between_events(run: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e-3


@contextmanager
def _arithmetic(dtype: DType) -> Iterator[None]:
    """Products and convolutions of fp32 round to TF32 only where that is what is measured."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    matmul.allow_tf32 = cudnn.allow_tf32 = dtype is DType.TF32
    cudnn.benchmark = False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before
