"""Sparse operators, which no tensor without memory has: what their results' sizes are made of.

A sparse tensor has the sizes that it is made with, and holds as many places as values (as many nonzeros).
It is made of coordinates [dims, nonzeros] and values [nonzeros, …], or compressed: [rows + 1], [nonzeros] and
values.
Schemas: ``aten/src/ATen/native/native_functions.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from perfcast.traces.scaling.assumptions import Assumptions
from perfcast.traces.scaling.blanks.run import parameters_of
from perfcast.traces.scaling.extents import Dim, fixed, size_of
from perfcast.traces.scaling.joins import join, join_all
from perfcast.traces.scaling.primes import Place
from perfcast.traces.scaling.recorded.calls import ScalingCall, TensorArgument, tensors_in
from perfcast.traces.scaling.rules import Dims, Shape, argument_named

#: Operators that make sparse tensors of places and values.
_COORDINATES = ("aten::_sparse_coo_tensor", "aten::sparse_coo_tensor")
_COMPRESSED = tuple(
    f"aten::{mark}sparse_{layout}_tensor"
    for mark in ("", "_")
    for layout in ("csr", "csc", "bsr", "bsc", "compressed")
)
MAKERS = (*_COORDINATES, *_COMPRESSED)
#: Operators that tell what a sparse tensor holds: places, values.
_TOLD: Mapping[str, int] = {
    **dict.fromkeys(("aten::_indices", "aten::indices", "aten::col_indices", "aten::row_indices"), 0),
    **dict.fromkeys(("aten::_values", "aten::values"), 1),
}
_KEPT = ("coalesce", "_coalesce", "_coalesced_", "_coalesced", "to_dense", "_to_dense", "to_sparse",
         "_to_sparse", "to_sparse_csr", "_to_sparse_csr", "sparse_mask", "_sparse_mask_projection",
         "_sparse_softmax", "_sparse_log_softmax", "_sparse_softmax_backward_data", "resize_as_sparse_",
         "copy_sparse_to_sparse_")  # fmt: skip
#: Results as large as the first argument.
_LIKE_THE_FIRST = frozenset(f"aten::{name}" for name in _KEPT)
#: Other operators after which a sparse tensor holds as much as before.
_HOLDING = _LIKE_THE_FIRST | frozenset(
    f"aten::{name}"
    for name in ("clone", "detach", "to", "_to_copy", "t", "transpose", "neg", "div", "mul", "abs")
)
_PRODUCTS = frozenset({"aten::_sparse_mm", "aten::_sparse_sparse_matmul", "aten::_sparse_mm_reduce_impl"})
_SUMS = frozenset({"aten::_sparse_addmm", "aten::sspaddmm", "aten::hspmm"})


def makes_sparse(operator: str) -> bool:
    """Whether an operator makes a sparse tensor of places and values."""
    return operator.startswith(MAKERS)


def told(operator: str) -> int | None:
    """Which of places (0) and values (1) of a sparse tensor an operator tells; None: neither."""
    return _TOLD.get(operator)


def holds_as_before(operator: str) -> bool:
    """Whether a result holds as many nonzeros as the first argument."""
    return operator in _HOLDING


def made_sparse(call: ScalingCall) -> TensorArgument | None:
    """The sparse tensor that a call makes with given sizes; None where it has none, or makes none."""
    sizes = argument_named(call, "size") if makes_sparse(call.operator) else None
    if not isinstance(sizes, tuple) or not sizes or not all(type(size) is int for size in sizes):
        return None
    dtypes = [tensor.dtype for tensor in tensors_in(call.arguments)]
    shape = tuple(size for size in sizes if isinstance(size, int))
    return TensorArgument(None, None, dtypes[-1] if dtypes else "float32", shape)


def parts_held(call: ScalingCall, own: Sequence[Dims]) -> tuple[Dims, Dims] | None:
    """Places and values that a sparse tensor is made of."""
    if call.operator.startswith(_COORDINATES):
        pairs = [(a, b) for a, b in pairwise(own) if len(a) == 2 and b]
        return pairs[0] if pairs else None
    if len(own) == 3 and own[1] and own[2]:
        return own[1], own[2]
    return None


def join_sparse(assumptions: Assumptions, call: ScalingCall, own: Sequence[Dims]) -> None:
    """Make alike what a sparse operator needs to be: inner dims of products, places and values."""
    if call.operator in _PRODUCTS and len(own) > 1 and len(own[0]) == 2 == len(own[1]):
        join_all(assumptions, [(own[0][1], own[1][0])])
    if call.operator in _SUMS and len(own) > 2 and len(own[1]) == 2 == len(own[2]):
        join_all(assumptions, [(own[1][1], own[2][0])])
        join_all(assumptions, zip(own[0], (own[1][0], own[2][1]), strict=False))
    if call.operator == "aten::sparse_mask" and len(own) == 2:
        join_all(assumptions, zip(own[0], own[1], strict=False))
    parts = parts_held(call, own) if makes_sparse(call.operator) else None
    if parts is not None:
        join_all(assumptions, [(parts[0][-1], parts[1][0])])


def join_rows(assumptions: Assumptions, call: ScalingCall, own: Sequence[Dims], made: Dims) -> None:
    """Make pointers of a compressed tensor as many as its rows (columns), and one more."""
    if call.operator.startswith(_COMPRESSED) and own and own[0]:
        for dim in made[-2:]:
            if size_of(dim) + 1 == size_of(own[0][-1]):
                join(assumptions, own[0][-1], dim)
                return


def sparse_outputs(
    call: ScalingCall, own: Sequence[Dims], literals: Mapping[Place, Dim], shapes: Sequence[Shape]
) -> list[Dims] | None:
    """Dims of the results; None where a call is none of these operators, or its sizes are others."""
    found: Dims | None = None
    if makes_sparse(call.operator):
        found = _sizes_given(call, literals)
    elif call.operator in _LIKE_THE_FIRST and own:
        found = own[0]
    elif call.operator in _PRODUCTS and len(own) > 1 and len(own[0]) == 2 == len(own[1]):
        found = (own[0][0], own[1][1])
    elif call.operator in _SUMS and len(own) > 2 and len(own[1]) == 2 == len(own[2]):
        found = (own[1][0], own[2][1])
    if found is None or len(shapes) != 1 or tuple(size_of(dim) for dim in found) != tuple(shapes[0]):
        return None
    return [found]


def _sizes_given(call: ScalingCall, literals: Mapping[Place, Dim]) -> Dims | None:
    names = [parameter.name for parameter in parameters_of(call.operator, call.overload)]
    at = names.index("size") if "size" in names else len(call.arguments)
    sizes = call.arguments[at] if at < len(call.arguments) else None
    if not isinstance(sizes, tuple):
        return None
    return tuple(
        literals.get((at, inner), fixed(size)) for inner, size in enumerate(sizes) if isinstance(size, int)
    )
