"""What operators make of sizes that they are given beside tensors: repeats, parts, counts, pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from perfcast.traces.scaling.extents import (
    Dim,
    fixed,
    growing,
    joined,
    largest_monomial,
    size_of,
    variables_of,
)
from perfcast.traces.scaling.joins import join_all
from perfcast.traces.scaling.pieces import CUTS, cut_dim, evidence_of_pieces, joined_dim, joins_samples
from perfcast.traces.scaling.recorded.calls import ScalingCall
from perfcast.traces.scaling.rules import Dims, Shape
from perfcast.traces.scaling.tensors import Tensors

#: Take how often each dim is there, or how large it is made.
_REPEATS = frozenset({"aten::repeat", "aten::expand"})
_TRIANGLES = frozenset({"aten::triu_indices", "aten::tril_indices"})
Shapes: TypeAlias = "Sequence[Shape | None] | None"


def by_given_sizes(
    tensors: Tensors, call: ScalingCall, own: tuple[Dims, ...], shapes: Shapes
) -> list[Dims | None] | None:
    """Dims of the results of such an operator; None where a call is none of them."""
    first = shapes[0] if shapes else None
    if call.operator in _REPEATS and own:
        return _repeated(tensors, call, own[0])
    if call.operator in CUTS and own and own[0] and shapes:
        return _cut(tensors, call, own[0], shapes)
    if not first:
        return None
    if call.operator == "aten::arange":
        return [tensors.from_outside(first, "int64", f"a tensor of {call.operator}", is_data=False)]
    if call.operator == "aten::bincount":
        return [(tensors.assumed(first[0], f"how many numbers {call.operator} counts"),)]
    if call.operator in _TRIANGLES:
        powers = joined(largest_monomial(dim) for dim in tensors.literals_of(call).values())
        return [(fixed(first[0]), growing(first[-1], powers))]
    return None


def _repeated(tensors: Tensors, call: ScalingCall, own: Dims) -> list[Dims | None] | None:
    """Each dim as often as a literal says, or as large; -1 is as it is."""
    sizes = call.arguments[1] if len(call.arguments) > 1 else None
    if not isinstance(sizes, tuple) or len(sizes) < len(own):
        return None
    literals = tensors.literals_of(call)
    given = [literals.get((1, at), fixed(1)) for at in range(len(sizes))]
    given = [often if size_of(often) >= 0 else fixed(1) for often in given]
    dims = (*(fixed(1) for _ in range(len(given) - len(own))), *own)
    if call.operator == "aten::repeat":
        return [tuple((*often, *dim) for often, dim in zip(given, dims, strict=True))]
    join_all(tensors.assumptions, zip(given, dims, strict=True))
    return [tuple(often if size_of(dim) == 1 else dim for often, dim in zip(given, dims, strict=True))]


def gathered_samples(
    tensors: Tensors, call: ScalingCall, own: tuple[Dims, ...], shapes: Shapes
) -> Dims | None:
    """As many parts as there are samples put together, none of which grows; None: it is no such call."""
    if not shapes or shapes[0] is None or not joins_samples(call, own, tensors.batch):
        return None
    at, is_stack = joined_dim(call, shapes[0]), call.operator == "aten::stack"
    along: list[Dim] = [] if is_stack else [dim for dims in own for dim in dims[at : at + 1]]
    variables = [v for dim in along for v in variables_of(tensors.assumptions.canonical(dim))]
    if any(map(tensors.assumptions.follows, variables)):
        return None
    what = f"as many parts as samples that {call.operator} puts together"
    rest = own[0] if is_stack else (*own[0][:at], *own[0][at + 1 :])
    return (*rest[:at], tensors.counted(shapes[0][at], len(own), what), *rest[at:])


def _cut(
    tensors: Tensors, call: ScalingCall, own: Dims, shapes: Sequence[Shape | None]
) -> list[Dims | None] | None:
    """Parts of what follows the batch that may not; None: parts that are a share of it."""
    at = cut_dim(call, len(own))
    variables = variables_of(tensors.assumptions.canonical(own[at]))
    sizes = [shape[at] for shape in shapes if shape is not None and len(shape) == len(own)]
    if len(sizes) != len(shapes) or not variables:
        return None
    if not any(map(tensors.assumptions.follows, variables)) and sizes[0] % tensors.batch:
        return None
    is_sure = any(map(tensors.assumptions.is_sure, variables))
    evidence = evidence_of_pieces(call, size_of(own[at]), sizes, tensors.batch, is_sure=is_sure)
    if evidence is None:
        return None
    parts = tensors.parts(sizes, evidence, f"a part that {call.operator} takes")
    return [(*own[:at], dim, *own[at + 1 :]) for dim in parts]
