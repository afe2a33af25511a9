"""What operators do to the makeup of dims where running them without memory does not show it.

Reshapes keep factors in their order; cuts take pieces; what is put together is a sum. Counts that depend on
the data (``nonzero``, masks, lengths) are taken in expectation: the share of what is searched stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from perfcast.traces.scaling.blanks.run import needs_memory, parameters_of
from perfcast.traces.scaling.extents import (
    Dim,
    Factor,
    added,
    fixed,
    growing,
    joined,
    largest_monomial,
    regrouped,
    size_of,
    without_one,
)
from perfcast.traces.scaling.recorded.calls import ScalingCall

Dims: TypeAlias = "tuple[Dim, ...]"
Shape: TypeAlias = "tuple[int, ...]"
#: A call, dims and element types of its tensors, shapes of its results → dims of its results.
Rule: TypeAlias = "Callable[[ScalingCall, Sequence[Dims], Sequence[str], Sequence[Shape]], list[Dims] | None]"


def argument_named(call: ScalingCall, *names: str) -> object:
    """The argument of one of these names; None where there is none."""
    for place, parameter in enumerate(parameters_of(call.operator, call.overload)):
        if parameter.name in names and place < len(call.arguments):
            return call.arguments[place]
    return None


def _reshaped(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    if not dims or len(shapes) != 1:
        return None
    found = regrouped(dims[0], shapes[0])
    return None if found is None else [tuple(found)]


def _cut(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    if not dims:
        return None
    own, found = dims[0], []
    at = _dim_of(call, len(own))
    start = 0
    for shape in shapes:
        if len(shape) != len(own) or any(
            size_of(d) != s for i, (d, s) in enumerate(zip(own, shape, strict=True)) if i != at
        ):
            return None
        found.append((*own[:at], piece(own[at], shape[at], start), *own[at + 1 :]))
        start += shape[at]
    return found


def _dim_of(call: ScalingCall, num_dims: int) -> int:
    found = argument_named(call, "dim", "axis", "dimension")
    return (found if type(found) is int else 0) % max(num_dims, 1)


def piece(dim: Dim, size: int, start: int = 0) -> Dim:
    """A part of a dim: a term of a sum where it is one, else the same share of it.

    One row stays one, and all but one row stay all but one.
    """
    if size == size_of(dim):
        return dim
    if size <= 1:
        return fixed(size)
    if size == size_of(dim) - 1:
        return without_one(dim)
    if len(dim) == 1 and len(dim[0].terms) > 1:
        same = [term for term in dim[0].terms if term.count == size]
        if same:
            return (Factor((same[0],)),)
    inner = dim[1:]
    if dim[0].is_fixed and inner and size % size_of(inner) == 0:
        return (*fixed(size // size_of(inner)), *inner)
    return growing(size, largest_monomial(dim))


def _put_together(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    parts = [own for own in dims if [size_of(dim) for dim in own] != [0]]
    if not parts or len(shapes) != 1 or any(len(own) != len(parts[0]) for own in parts):
        return None
    if call.operator == "aten::stack":
        at = _dim_of(call, len(parts[0]) + 1)
        return [(*parts[0][:at], fixed(len(parts)), *parts[0][at:])]
    at = _dim_of(call, len(parts[0]))
    return [(*parts[0][:at], added([own[at] for own in parts]), *parts[0][at + 1 :])]


def _found(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    """As many of all places as were found: [count], or [count, dims of a place]."""
    if not dims:
        return None
    powers = joined(largest_monomial(dim) for dim in dims[0])
    return [
        tuple(growing(s, powers) if i == 0 else fixed(s) for i, s in enumerate(shape)) for shape in shapes
    ]


def _indexed(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    """What a mask picks; where no mask is among the indices, running it without memory shows it."""
    places = [i for i, dtype in enumerate(dtypes) if i and dtype in ("bool", "uint8")]
    if not places or len(shapes) != 1:
        return None
    mask, own = dims[places[0]], dims[0]
    powers = joined(largest_monomial(dim) for dim in mask)
    rest = [dim for dim in own if dim not in mask] if len(places) > 1 else list(own[len(mask) :])
    indices = call.arguments[1] if len(call.arguments) > 1 else ()
    if isinstance(indices, tuple) and len(places) == 1:
        before = 0
        while before < len(indices) and indices[before] is None:
            before += 1
        found = (*own[:before], growing(shapes[0][before], powers) if before < len(shapes[0]) else fixed(1),
                 *own[before + len(mask) :])  # fmt: skip
        if len(found) == len(shapes[0]):
            return [found]
    found = (growing(shapes[0][0], powers), *rest) if shapes[0] else ()
    return [found] if len(found) == len(shapes[0]) else None


def _packed(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    """Sequences of different lengths one behind the other: as many of all steps as were no padding."""
    if len(shapes) != 2 or not dims or len(dims[0]) < 2:
        return None
    powers = joined(largest_monomial(dim) for dim in dims[0][:2])
    return [(growing(shapes[0][0], powers), *dims[0][2:]), tuple(fixed(size) for size in shapes[1])]


def _repeated(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    """Each as often as a tensor says: as many in all for each that there is."""
    if len(dims) != (2 if call.overload == "self_Tensor" else 1) or len(shapes) != 1:
        return None
    count = dims[-1][0] if dims[-1] else fixed(1)
    own = dims[0]
    at = _dim_of(call, len(own)) if len(dims) > 1 else 0
    found = (*own[:at], growing(shapes[0][at], largest_monomial(count)), *own[at + 1 :])
    return [found] if len(found) == len(shapes[0]) else None


def _unfolded(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    """Windows along a dim, which follow it where it grows: each is as long as before."""
    if not dims or not dims[0] or len(shapes) != 1 or len(shapes[0]) != len(dims[0]) + 1:
        return None
    at = _dim_of(call, len(dims[0]))
    own, count, size = dims[0][at], shapes[0][at], shapes[0][-1]
    apart = regrouped([own], [count, size]) if count * size == size_of(own) else None
    if apart is None:
        apart = [piece(own, count), fixed(size)]
    return [(*dims[0][:at], apart[0], *dims[0][at + 1 :], apart[1])]


def _counted(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    return [tuple(fixed(size) for size in shape) for shape in shapes]


def _alike(
    call: ScalingCall, dims: Sequence[Dims], dtypes: Sequence[str], shapes: Sequence[Shape]
) -> list[Dims] | None:
    """Sizes as those of the arguments: of layers whose libraries cannot be run without memory.

    A row that none of them has, longer than all of them, is what such a layer keeps for its gradients.
    """
    longest = max((size_of(dim) for own in dims for dim in own), default=0)
    return [
        (growing(shape[0], joined(largest_monomial(dim) for dim in dims[0])),)
        if len(shape) == 1 and shape[0] > longest and dims
        else tuple(dim_alike(dims, at, size) or fixed(size) for at, size in enumerate(shape))
        for shape in shapes
    ]


def dim_alike(dims: Sequence[Dims], at: int, size: int) -> Dim | None:
    """A dim of this size among the arguments': in the same place, else one that stays, else any."""
    here = [own[at] for own in dims if at < len(own) and size_of(own[at]) == size]
    anywhere = [dim for own in dims for dim in own if size_of(dim) == size and size > 1]
    stays = [dim for dim in anywhere if all(factor.is_fixed for factor in dim)]
    return next(iter((*here, *stays, *anywhere)), None)


_RESHAPES = ("view", "reshape", "_unsafe_view", "_reshape_alias", "flatten", "unflatten", "ravel")
_CUTS = ("narrow", "slice", "split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk",
         "unsafe_split_with_sizes", "tensor_split", "narrow_copy")  # fmt: skip
_JOINS = ("cat", "concat", "concatenate", "stack", "_cat")
_SEARCHES = ("nonzero", "nonzero_numpy", "argwhere", "masked_select")
_COUNTS = ("histc",)

RULES: Mapping[str, Rule] = {
    **{f"aten::{name}": _reshaped for name in _RESHAPES},
    **{f"aten::{name}": _cut for name in _CUTS},
    **{f"aten::{name}": _put_together for name in _JOINS},
    **{f"aten::{name}": _found for name in _SEARCHES},
    **{f"aten::{name}": _counted for name in _COUNTS},
    "aten::unfold": _unfolded,
    "aten::index": _indexed,
    "aten::_pack_padded_sequence": _packed,
    "aten::repeat_interleave": _repeated,
    "aten::embedding_bag": _alike,
    "aten::_embedding_bag": _alike,
    "aten::_embedding_bag_forward_only": _alike,
}
#: Operators whose counts depend on the data, and none of which can be run without memory.
SEARCHES = frozenset(
    {*(f"aten::{name}" for name in _SEARCHES), "aten::where", "aten::_unique2", "aten::unique"}
)


def rule_of(call: ScalingCall) -> Rule | None:
    """The rule of a call, where it has one."""
    if call.operator == "aten::where":
        return _found if len(call.arguments) == 1 else None
    if call.operator == "aten::repeat_interleave" and type(argument_named(call, "repeats")) is int:
        return None
    return RULES.get(call.operator) or (_alike if needs_memory(call.operator) else None)
