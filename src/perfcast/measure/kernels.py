"""One operator on one shape: how it is made, run and counted.

What work a case is, the recorder says: the case is run once on symbolic tensors, so that the rules by which
a forecast counts and those by which a measurement does cannot differ.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from perfcast.core.operation import Operation
from perfcast.torch_internals.eager import FakeTensorMode, tree_leaves
from perfcast.units import MIB
from perfcast.workload.capture.recorder import Recorder

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
        recorder.register([t for t in tree_leaves(arguments) if isinstance(t, Tensor)], "input")
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
    leaves = tree_leaves(value)
    storages = {id(t): t.untyped_storage().nbytes() for t in leaves if isinstance(t, Tensor)}
    return sum(storages.values())


# ---- what cases are made of ----------------------------------------------------------------------


def floats(*shape: int) -> Callable[[str], Tensor]:
    """A tensor of one half."""
    return lambda device: torch.full(shape, 0.5, device=device)


def kernel_case(name: str, label: str, run: Callable[..., Any], *makers: Callable[[str], Any]) -> KernelCase:
    """A case whose arguments come from one maker each."""
    return KernelCase(f"{name} {label}", lambda device: tuple(make(device) for make in makers), run)


def integers(high: int, *shape: int) -> Callable[[str], Tensor]:
    """Spread over the table by a fixed stride, so that lookups do not repeat a cached row."""
    count = math.prod(shape)

    def make(device: str) -> Tensor:
        return ((torch.arange(count, device=device) * 7919) % high).reshape(shape)

    return make


def log_spaced(low: float, high: float, count: int) -> list[int]:
    """Whole numbers, evenly in the logarithm, ends included."""
    return sorted({round(v) for v in np.geomspace(low, high, count)})


def split_heads(batch: int, length: int, heads: int, size: int) -> Callable[[str], Tensor]:
    """[batch, length, heads, size] seen as [batch, heads, length, size], as a split of heads is."""
    return lambda device: torch.full((batch, length, heads, size), 0.5, device=device).transpose(1, 2)
