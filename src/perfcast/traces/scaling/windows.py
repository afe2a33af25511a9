"""Windows onto memory: what their dims are made of, by those of another window onto the same."""

from __future__ import annotations

from perfcast.traces.scaling.blanks.run import dense_strides
from perfcast.traces.scaling.extents import Dim, Factor, fixed, size_of
from perfcast.traces.scaling.recorded.calls import TensorArgument
from perfcast.traces.scaling.rules import Dims, piece


def is_dense(tensor: TensorArgument) -> bool:
    """Whether its elements stand in memory in the order of its dims; a dim of one stands anywhere."""
    if tensor.strides is None:
        return True
    dense = dense_strides(tensor.shape, tensor.shape, None)
    return all(
        size == 1 or own == other
        for size, own, other in zip(tensor.shape, tensor.strides, dense, strict=True)
    )


def is_repeated(tensor: TensorArgument, at: int) -> bool:
    """Whether a dim shows the same elements again and again."""
    return tensor.strides is not None and tensor.strides[at] == 0 and tensor.shape[at] > 1


def by_strides(tensor: TensorArgument, other: TensorArgument, dims: Dims) -> Dims | None:
    """Dims of a window by those of another one: each begins where one of its factors does.

    Dims may have become one, or one of several factors apart; None where a stride is none of the other's.
    """
    if not other.strides or not tensor.strides or other.dtype != tensor.dtype:
        return None
    factors = _factors(other, dims)
    found = []
    for at, (size, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
        if size == 1:
            found.append(fixed(1))
            continue
        dim = _repeated(size, other, dims) if is_repeated(tensor, at) else _from(stride, size, factors)
        if dim is None:
            return None
        found.append(dim)
    return tuple(found)


def _factors(tensor: TensorArgument, dims: Dims) -> dict[int, Factor]:
    """Stride → the factor that goes by it."""
    found: dict[int, Factor] = {}
    for size, stride, dim in zip(tensor.shape, tensor.strides or (), dims, strict=True):
        step = stride
        for factor in reversed(dim):
            if size > 1 and factor.size > 1:
                found[step] = factor
            step *= max(factor.size, 1)
    return found


def _repeated(size: int, other: TensorArgument, dims: Dims) -> Dim | None:
    """A dim that the other window repeats as often; None where it has none, or more than one."""
    alike = [dims[at] for at in range(len(dims)) if is_repeated(other, at) and size_of(dims[at]) == size]
    return alike[0] if len(alike) == 1 else None


def _from(stride: int, size: int, factors: dict[int, Factor]) -> Dim | None:
    """As many factors, one around the other, as the size takes; a part of the last one."""
    held, own, step = 1, list[Factor](), stride
    while held < size:
        factor = factors.get(step)
        if factor is None:
            return None
        own.insert(0, factor)
        held *= factor.size
        step *= factor.size
    return piece(tuple(own), size)
