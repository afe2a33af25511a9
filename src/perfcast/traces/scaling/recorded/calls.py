"""Recorded calls as the scaling reads them, whichever recording they come from."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor as a call saw it.

    Attributes:
        key: What tells it from all other tensors; None where the recording does not say which one it is.
        storage: The memory that it is a window onto; None where that is not known.
        dtype: In PyTorch's words ('float32').
        strides: None: not recorded.
    """

    key: Hashable
    storage: Hashable
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0


Argument: TypeAlias = "TensorArgument | int | float | bool | str | tuple[Argument, ...] | None"


@dataclass(frozen=True, slots=True)
class ScalingCall:
    """An operator, or a label, in the order of starts.

    Attributes:
        place: What it is named by: a node's id, a row, the index of a call.
        operator: 'aten::addmm'.
        overload: None: not recorded.
        outputs: None: not recorded.
        last_below: The last place among what it called.
        arguments_are: Of a label, which arguments do not matter: it computes nothing.
    """

    place: int
    operator: str
    overload: str | None
    arguments: tuple[Argument, ...]
    outputs: tuple[TensorArgument | None, ...] | None
    last_below: int
    is_operator: bool = True


def tensors_in(value: Argument) -> Iterator[TensorArgument]:
    """The tensors of an argument, in order."""
    if isinstance(value, TensorArgument):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from tensors_in(item)
