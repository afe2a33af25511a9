"""Pieces of a dim that follows the batch: a share of it, or of a length of their own, and more of them.

``x.split(4)`` of 16 samples are 4 pieces of 4: at 64 samples it may be 16 pieces of 4 (micro-batches), or
4 of 16 (``x.split(len(x) // 4)``). Nothing recorded tells which: all but the clear cases are assumptions.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.traces.scaling.recorded.calls import ScalingCall
from perfcast.traces.scaling.rules import Dims, Shape, argument_named
from perfcast.traces.scaling.sources import evidence_of_literals

_SLICES = frozenset({"aten::slice", "aten::narrow"})
_SPLITS = frozenset({"aten::split", "aten::unsafe_split"})
_UNEVEN = frozenset({"aten::split_with_sizes", "aten::unsafe_split_with_sizes", "aten::tensor_split"})
CUTS = _SLICES | _SPLITS | _UNEVEN
_JOINS = frozenset({"aten::cat", "aten::concat", "aten::stack"})
#: Pieces of a length of their own, and halves of what follows the batch.
_OWN_LENGTH, _HALF = -0.5, 0.5
#: A piece that is about what one sample has is one sample's: times the mean.
_LEAST, _MOST = 0.25, 2.0


def cut_dim(call: ScalingCall, num_dims: int) -> int:
    """The dim that is cut."""
    found = argument_named(call, "dim", "axis", "dimension")
    return (found if type(found) is int else 0) % max(num_dims, 1)


def evidence_of_pieces(
    call: ScalingCall, own_size: int, sizes: Sequence[int], batch: int, *, is_sure: bool
) -> float | None:
    """Whether pieces of a dim that follows the batch do; None: as the dim does.

    Args:
        sizes: Of the pieces along the dim.
        is_sure: Whether it is sure that the dim follows the batch.
    """
    if own_size in sizes or max(sizes, default=0) < 2 or max(sizes) == own_size - 1:
        return None
    if not max(sizes) % batch:
        return None if is_sure else evidence_of_literals(sizes[:1], batch)[0]
    if call.operator in _UNEVEN:
        return _OWN_LENGTH if len(sizes) % batch == 0 else None
    if max(sizes) * 2 in (own_size, own_size + 1):
        return _HALF
    if call.operator in _SPLITS:
        return _OWN_LENGTH
    return _OWN_LENGTH if _LEAST <= max(sizes) * batch / own_size <= _MOST else _HALF


def joins_samples(call: ScalingCall, own: Sequence[Dims], batch: int) -> bool:
    """Whether as many pieces are put together as there are samples, or a multiple."""
    return call.operator in _JOINS and batch > 1 and len(own) >= batch and len(own) % batch == 0


def joined_dim(call: ScalingCall, shape: Shape) -> int:
    """The dim of the result along which pieces stand."""
    return cut_dim(call, len(shape))
