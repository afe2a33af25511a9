"""How a tensor is cut over tensor-parallel ranks, said of its memory rather than of its dims.

A storage that is cut consists of periods of ``period`` elements, each of them cut in tp equal parts: a matrix
[rows, columns] cut by columns has the period ``columns``, cut by rows it is one period of all its elements.
Views, transposes and flattenings change dims but not memory, so that this one number follows a storage
through all of them: the dim of a view that is cut is the outermost one inside a period.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.tensor import TensorType
from perfcast.errors import PlanError


@dataclass(frozen=True, slots=True)
class Cut:
    """A storage of which a rank holds a part.

    Attributes:
        period: Elements that are cut together, in the memory of the whole tensor.
        origins: Storages of the parameters whose cut led to this one; empty where the sequence is cut.
    """

    period: int
    origins: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Partial:
    """A storage of which every rank holds a summand; ``dtype`` is what it is exchanged in."""

    origins: frozenset[int]
    dtype: DType


@dataclass(frozen=True, slots=True)
class CutDim:
    """The dim of a view that is cut, in runs of ``run`` indices each."""

    dim: int
    run: int


def strides_of(tensor: TensorType) -> tuple[int, ...]:
    """Strides in elements; of a dense tensor where none are noted."""
    if len(tensor.strides) == len(tensor.shape):
        return tensor.strides
    return tuple(math.prod(tensor.shape[dim + 1 :]) for dim in range(len(tensor.shape)))


def cut_dim(tensor: TensorType, period: int) -> CutDim | None:
    """The dim of a view that a cut with this period cuts; None if the view lies across no boundary."""
    best: CutDim | None = None
    largest = 0
    for dim, (size, stride) in enumerate(zip(tensor.shape, strides_of(tensor), strict=True)):
        if size > 1 and largest < stride < period:
            best, largest = CutDim(dim, min(size, period // stride)), stride
    return best


def period_of(tensor: TensorType, dim: int, run: int) -> int:
    """The inverse: the period of a tensor whose dim ``dim`` is cut in runs of ``run`` indices."""
    return strides_of(tensor)[dim] * run


def local_type(tensor: TensorType, cut: CutDim | None, period: int, ranks: int, where: str) -> TensorType:
    """What one rank holds of a view.

    Args:
        period: 0 where a rank takes its slice of a tensor that it holds whole.
        where: Of the message.

    Raises:
        PlanError: The dim does not divide.
    """
    if cut is None:
        return tensor
    size = tensor.shape[cut.dim]
    if cut.run % ranks or size % ranks:
        raise PlanError(
            f"tp={ranks} does not divide {min(size, cut.run)}: dim {cut.dim} of {list(tensor.shape)} "
            f"in {where}"
        )
    shape = (*tensor.shape[: cut.dim], size // ranks, *tensor.shape[cut.dim + 1 :])
    strides = tuple(
        stride // ranks if period and stride >= period else stride for stride in strides_of(tensor)
    )
    return TensorType(shape, tensor.dtype, strides)
