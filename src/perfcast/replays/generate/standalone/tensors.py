"""Tensors with made-up contents, windows onto their memory, and the host's pauses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: Numbers drawn for one tensor at most; longer ones repeat them.
_MOST_DRAWN = 2**22


class Tensors:
    """The tensors that live longer than one part of a step, by name.

    ``device`` is where they are. ``pause(seconds)`` keeps the host busy, or does nothing. ``note(flag)``
    says whether autograd notes what follows, as it did in the recording. ``collectives`` talks to the others.
    """

    def __init__(self, device: str, seed: int, *, has_pauses: bool) -> None:
        self.device = torch.device(device)
        self.generator = torch.Generator().manual_seed(seed)
        self.pause = spin if has_pauses else skip
        self.note: Callable[[bool], Any] = torch.set_grad_enabled
        self.collectives: Any = None
        self.streams: dict[int, torch.cuda.Stream] = {}

    def use_stream(self, number: int = 0) -> None:
        """What follows runs on a stream of the device; 0 is the main one. A processor has none.

        A stream waits for the one before it: which of their works could overlap is not recorded.
        """
        if self.device.type != "cuda":
            return
        before = torch.cuda.current_stream(self.device)
        if number not in self.streams:
            main = torch.cuda.default_stream(self.device)
            made = torch.cuda.Stream(self.device) if number else main  # type: ignore[no-untyped-call]
            self.streams[number] = made
        self.streams[number].wait_stream(before)
        torch.cuda.set_stream(self.streams[number])

    def new(self, dtype: torch.dtype, shape: Sequence[int], device: str | None = None) -> Tensor:
        """Zeros, on the benchmark's device or a named one."""
        return torch.zeros(tuple(shape), dtype=dtype, device=device or self.device)

    def normal(self, tensor: Tensor, scale: float) -> Tensor:
        """Filled with normal deviates."""
        return _repeated(tensor, lambda n: torch.randn(n, generator=self.generator) * scale)

    def positive(self, tensor: Tensor, low: float, high: float) -> Tensor:
        """Filled with fractions between two bounds."""
        return _repeated(tensor, lambda n: torch.rand(n, generator=self.generator) * (high - low) + low)

    def uniform(self, tensor: Tensor, low: int, high: int) -> Tensor:
        """Filled with whole numbers between two bounds, both included."""
        return _repeated(tensor, lambda n: torch.randint(low, high + 1, (n,), generator=self.generator))

    def offsets(self, tensor: Tensor, high: int, *, has_last: bool = False) -> Tensor:
        """Filled with the starts of bags of equal size that hold ``high`` lookups together.

        ``has_last``: its last element is where the last bag ends.
        """
        count = tensor.numel()
        return _shaped(tensor, torch.arange(count) * high // max(count - has_last, 1))

    def mask(self, tensor: Tensor, trues: int) -> Tensor:
        """Filled with ``trues`` ones, evenly spaced among zeros."""
        count = tensor.numel()
        return _shaped(tensor, (torch.arange(count + 1) * trues // max(count, 1)).diff())

    def permutation(self, tensor: Tensor) -> Tensor:
        """Filled with every whole number below its size, once each."""
        return _shaped(tensor, torch.randperm(tensor.numel(), generator=self.generator))

    def lookups(self, tensor: Tensor, low: int, high: int, shares: Sequence[float]) -> Tensor:
        """Filled with rows; of those touched, ``shares`` are looked up 1, 2, 3 to 4, 5 to 8, … times."""
        if not sum(shares):
            return self.uniform(tensor, low, high)
        count, num_rows = tensor.numel(), high - low + 1
        weights = torch.tensor(shares, dtype=torch.float64)
        uses = 0.75 * 2.0 ** torch.arange(len(shares), dtype=torch.float64)
        uses[0] = 1.0
        mean = float((weights * uses).sum() / weights.sum())
        touched = max(1, min(num_rows, round(count / mean)))
        bins = torch.multinomial(weights, touched, replacement=True, generator=self.generator)
        counts = (uses[bins] * (count / float(uses[bins].sum()))).cumsum(0).round().long()
        counts = counts.diff(prepend=torch.zeros(1, dtype=torch.long))
        rows = self._different_rows(touched, num_rows) + low
        made = rows.repeat_interleave(counts)
        return _shaped(tensor, made[torch.randperm(len(made), generator=self.generator)][:count])

    def _different_rows(self, touched: int, num_rows: int) -> Tensor:
        """So many different rows below ``num_rows``: one at random from each of as many equal pieces."""
        starts = torch.arange(touched + 1, dtype=torch.float64) * (num_rows / touched)
        place = torch.rand(touched, generator=self.generator, dtype=torch.float64)
        return torch.minimum((starts[:-1] + place * starts.diff()).long(), starts[1:].ceil().long() - 1)


class StepPart(NamedTuple):
    """Some lines of a step; names of the given tensors used in it for the first and for the last time.

    Names have spaces between them.
    """

    run: Callable[[Tensors], None]
    needs: str
    done: str


def window(
    memory: Tensor, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], offset: int
) -> Tensor:
    """A tensor onto the memory of another; strides and offset count elements of ``dtype``."""
    made = torch.empty(0, dtype=dtype, device=memory.device)
    return made.set_(memory.untyped_storage(), offset, tuple(shape), tuple(strides))


def flat(found: Any) -> list[Tensor | None]:
    """The tensors that an operator returned, lists opened."""
    if isinstance(found, (list, tuple)):
        return [tensor for item in found for tensor in flat(item)]
    return [found] if found is None or isinstance(found, Tensor) else []


def skip(seconds: float) -> None:
    """No pause."""


def spin(seconds: float) -> None:
    """Keeps the processor busy, as the recorded host was."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def wait(seconds: float) -> None:
    """Lets time pass that is not the host's."""
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        if left > 0.002:
            time.sleep(left - 0.001)


def _repeated(tensor: Tensor, draw: Callable[[int], Tensor]) -> Tensor:
    """Filled with at most so many different numbers, again and again."""
    count = max(tensor.numel(), 1)
    drawn = draw(min(count, _MOST_DRAWN)).to(tensor.dtype)
    return _shaped(tensor, drawn.repeat(-(-count // len(drawn)))[: tensor.numel()])


def _shaped(tensor: Tensor, values: Tensor) -> Tensor:
    """Filled with values; where elements share memory, its memory is filled."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    reach = 1 + sum((size - 1) * stride for size, stride in steps) if tensor.numel() else 0
    if reach < tensor.numel():
        tensor.as_strided((reach,), (1,)).copy_(values[:reach])
        return tensor
    return tensor.copy_(values.reshape(tensor.shape))
