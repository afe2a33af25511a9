"""Loops over samples: a sequence of operators that ran again and again, as often as the batch.

A program that takes its samples one by one (or makes them so) runs more operators at a larger batch, each of
the size it has. Repeats of layers, of steps through time and of parameters are told from that by what they
are given: other parameters each time, or tensors that grow with the batch themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.traces.scaling.extents import fixed
from perfcast.traces.scaling.primes import run
from perfcast.traces.scaling.recorded.calls import ScalingCall, TensorArgument, tensors_in
from perfcast.traces.scaling.rules import Shape

#: Operators that take a sample, or a part, out of what holds all of them.
_PICKS = frozenset(
    f"aten::{name}"
    for name in ("select", "slice", "narrow", "unbind", "split", "split_with_sizes", "chunk", "index",
                 "index_select", "select_backward", "slice_backward", "as_strided")
)  # fmt: skip
_MAKERS = frozenset(
    f"aten::{name}" for name in ("randn", "rand", "randint", "randperm", "normal", "bernoulli")
)
#: Operators that compute nothing.
_VIEWS = _PICKS | {
    f"aten::{name}"
    for name in ("t", "transpose", "permute", "view", "reshape", "expand", "unsqueeze", "squeeze", "alias")
}
#: What sums of gradients add to repeats, and not to the first or the last.
_GLUE = frozenset({"aten::add", "aten::add_", "aten::detach"})
_OPTIMIZER = "Optimizer.step#"
#: Operators of one repeat at most; repeats at least; the share of computing operators that may grow.
_LONGEST, _FEWEST, _MOST_GROWING = 400, 4, 0.5

#: Operators at least of repeats that are fewer.
_SHORTEST = 3

#: A call → whether one of its tensors, and whether what comes out of it, follows the batch.
Grows = Callable[[ScalingCall], tuple[bool, bool]]


@dataclass(frozen=True, slots=True)
class SampleLoop:
    """Repeats of a sequence of operators.

    Attributes:
        first, last: Places of the first call and of the last below the last one.
        operators: Of one repeat.
        count: Repeats.
        is_clear: Whether each repeat takes (or makes) its own part of what holds the batch.
        is_of_groups: Whether each takes several samples, so that either their number grows or how many
            there are in each.
    """

    first: int
    last: int
    operators: tuple[str, ...]
    count: int
    is_clear: bool
    is_of_groups: bool = False

    @property
    def words(self) -> str:
        """What it is, in words."""
        names = list(dict.fromkeys(name.removeprefix("aten::") for name in self.operators))
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        if self.is_of_groups:
            return f"a loop that ran {shown} {self.count} times, once for each of as many groups of samples"
        return f"a loop that ran {shown} {self.count} times, as often as there are samples or a multiple"


def loops_over_samples(
    calls: Sequence[ScalingCall], batch: int, parameters: set[Hashable], grows: Grows
) -> tuple[SampleLoop, ...]:
    """Repeats over samples, or groups of them, whose tensors do not grow with the batch themselves.

    Their count is the batch or a multiple of it, or (of groups) the batch is a multiple of it.

    Args:
        calls: In the order of their starts, those below a call behind it.
        parameters: Storages of parameters.
    """
    outermost = _outermost(calls)
    bare = [at for at, call in enumerate(outermost) if call.operator not in _GLUE]
    codes: dict[object, int] = {}
    kinds = np.array([codes.setdefault(_kind(outermost[at]), len(codes)) for at in bare], dtype=np.int64)
    free = np.ones(len(kinds), dtype=np.bool_)
    judge = _Judge(parameters, grows, *_parts(calls, grows), batch)
    fewest = max(2, min(_FEWEST, batch))
    found = []
    for period in range(1, min(_LONGEST, len(kinds) // fewest) + 1):
        for start, end in _runs(kinds, free, period, fewest):
            count = round((end - start) / period)
            if count < _FEWEST and period < _SHORTEST:
                continue
            is_whole = count >= fewest and abs((end - start) / period - count) < 1
            if not is_whole or (count % batch and batch % count):
                continue
            after = bare[end] if end < len(bare) else len(outermost)
            is_clear = judge.is_over_samples([outermost[at] for at in bare[start:end]], period, count)
            needs_clear = count % batch != 0 or count < _FEWEST
            if is_clear is not None and (is_clear or not needs_clear):
                free[start:end] = False
                names = tuple(outermost[at].operator for at in bare[start : start + period])
                last = outermost[after - 1].last_below
                first = outermost[bare[start]].place
                found.append(SampleLoop(first, last, names, count, is_clear, count % batch != 0))
    return tuple(sorted(found, key=lambda loop: loop.first))


def _parts(calls: Sequence[ScalingCall], grows: Grows) -> tuple[set[Hashable], set[Shape]]:
    """Tensors that are parts of what holds the batch, or that were made without growing.

    Where the recording does not say which tensor is which: their sizes.
    """
    found, shapes = set[Hashable](), set[Shape]()
    for call in calls:
        if call.operator in _PICKS or call.operator in _MAKERS:
            given, made = grows(call)
            if not made and (given or call.operator in _MAKERS):
                found.update(t.key for t in call.outputs or () if t is not None and t.key is not None)
                if call.outputs is None and call.operator in _PICKS:
                    shapes.update(_shapes_made(call))
    return found, shapes


def _shapes_made(call: ScalingCall) -> list[Shape]:
    blanks = run(call, [tuple(map(fixed, t.shape)) for t in _tensors(call)], {}, {})
    if isinstance(blanks, str):
        return []
    return [blank.shape for blank in blanks if blank is not None and max(blank.shape, default=0) > 1]


def _outermost(calls: Sequence[ScalingCall]) -> list[ScalingCall]:
    """Operators that no operator is around, but for those of an optimizer."""
    found, last = [], -1
    for call in calls:
        if call.place <= last:
            continue
        if call.is_operator:
            found.append(call)
        if call.is_operator or call.operator.startswith(_OPTIMIZER):
            last = call.last_below
    return found


def _kind(call: ScalingCall) -> tuple[str, tuple[int, ...]]:
    return call.operator, tuple(len(t.shape) for a in call.arguments for t in tensors_in(a))


def _runs(
    kinds: Integers, free: np.ndarray[tuple[int], np.dtype[np.bool_]], period: int, fewest: int
) -> list[tuple[int, int]]:
    """Stretches in which every operator is as the one a period before, with that first period."""
    same = (kinds[period:] == kinds[:-period]) & free[period:] & free[:-period]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    return [
        (start, end + period)
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if end - start >= max((fewest - 2) * period, period // 2)
    ]


@dataclass(frozen=True, slots=True)
class _Judge:
    """Tells repeats over samples from others."""

    parameters: set[Hashable]
    grows: Grows
    parts: set[Hashable]
    part_shapes: set[Shape]
    batch: int

    def is_over_samples(self, chosen: Sequence[ScalingCall], period: int, count: int) -> bool | None:
        """Whether each repeat clearly takes a part of its own; None: no repeats over samples."""
        if any(_has_own_parameters(chosen[at::period], self.parameters) for at in range(period)):
            return None
        working = [call for call in chosen if call.operator not in _VIEWS]
        growing = sum(self.grows(call)[0] for call in working)
        if not working or growing > _MOST_GROWING * len(working):
            return None
        taken = {t.key for call in chosen for t in _tensors(call) if t.key is not None} & self.parts
        shapes = {
            shape
            for shape in self.part_shapes
            if not count % self.batch or (shape and shape[0] * count == self.batch)
        }
        own = 0
        for at in range(0, len(chosen), period):
            tensors = [tensor for call in chosen[at : at + period] for tensor in _tensors(call)]
            own += any(tensor.key is None and tensor.shape in shapes for tensor in tensors)
        return max(sum(map(self._takes, chosen)), len(taken), own) >= count / 2

    def _takes(self, call: ScalingCall) -> bool:
        """Whether a call takes a part of what holds the batch, or makes a sample."""
        given, made = self.grows(call)
        return not made and (call.operator in _MAKERS or (given and call.operator in _PICKS))


def _has_own_parameters(calls: Sequence[ScalingCall], parameters: set[Hashable]) -> bool:
    """Whether one operator has other parameters in each repeat: of layers, tables or an optimizer."""
    if len(calls) < 2:
        return False
    own = {
        tuple(tensor.storage for tensor in _tensors(call) if _is_parameter(tensor, parameters))
        for call in calls
    }
    return len(own) > 1


def _is_parameter(tensor: TensorArgument, parameters: set[Hashable]) -> bool:
    return tensor.storage is not None and tensor.storage in parameters


def _tensors(call: ScalingCall) -> list[TensorArgument]:
    return [tensor for argument in call.arguments for tensor in tensors_in(argument)]
