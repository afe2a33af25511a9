"""Tensors that a timeline alone does not tell apart: of one type, sizes and strides, but of different makeup.

A batch of 16 beside 16 tokens, or beside a hidden size of 16: which of the two a call was given shows where
it only runs with one of them. Where it runs with both, and one would grow otherwise than the other, its
sizes are in doubt, and so is what it makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from perfcast.traces.scaling.assumptions import Assumptions
from perfcast.traces.scaling.extents import size_of, value_of, variables_of
from perfcast.traces.scaling.primes import decoded
from perfcast.traces.scaling.recorded.calls import ScalingCall, tensors_in
from perfcast.traces.scaling.rules import Dims, rule_of
from perfcast.traces.scaling.running import Literals, Shapes, runs_joined

#: Makeups of a call's tensors that are tried.
_MOST_TRIED = 8
#: Dims of more than one of a tensor that has more than rows.
_MATRIX = 2


def combinations_of(options: Sequence[Sequence[Dims]]) -> Iterator[tuple[Dims, ...]]:
    """Makeups of all tensors of a call, the likeliest first."""
    return islice(product(*options), _MOST_TRIED)


@dataclass(frozen=True, slots=True)
class Makeup:
    """What a call's tensors may be made of, and what it then makes; None: it does not run with them."""

    own: tuple[Dims, ...]
    made: tuple[Dims | None, ...] | None = None


def told_apart(
    assumptions: Assumptions,
    call: ScalingCall,
    tried: Sequence[tuple[Dims, ...]],
    literals: Literals,
    shapes: Shapes,
) -> list[Makeup]:
    """Those of some makeups with which a call runs, the likeliest first; all where it runs with none."""
    found = [Makeup(own, _made(assumptions, call, own, literals, shapes)) for own in tried]
    runs = [makeup for makeup in found if makeup.made is not None]
    if found[0].made is not None:
        return runs
    for makeup in [found[0]] if runs else found:
        if runs_joined(assumptions, call, makeup.own, literals, shapes):
            return [makeup, *runs]
    return runs or found


def _made(
    assumptions: Assumptions, call: ScalingCall, own: tuple[Dims, ...], literals: Literals, shapes: Shapes
) -> tuple[Dims | None, ...] | None:
    """What a call makes of such tensors; None where it does not run with them."""
    rule = rule_of(call)
    if rule is not None and None not in shapes:
        canonical = tuple(tuple(map(assumptions.canonical, dims)) for dims in own)
        dtypes = [tensor.dtype for tensor in tensors_in(call.arguments)]
        made = rule(call, canonical, dtypes, [shape for shape in shapes if shape is not None])
        if made is not None:
            return tuple(made)
    found = decoded(assumptions, call, own, literals, shapes)
    return None if found is None else tuple(found)


def is_in_doubt(assumptions: Assumptions, tried: Sequence[Makeup]) -> bool:
    """Whether makeups differ in how much the tensors of a call grow, or could where they are rows alone."""
    return len({_growth(assumptions, makeup) for makeup in tried}) > 1


def surest(assumptions: Assumptions, tried: Sequence[Makeup]) -> list[Makeup]:
    """The makeups, in front that which grows as the likeliest does and assumes least."""
    alike = [own for own in tried if not is_in_doubt(assumptions, (tried[0], own))]
    first = min(alike, key=lambda makeup: _count_assumed(assumptions, makeup))
    return [first, *(makeup for makeup in tried if makeup is not first)]


def _count_assumed(assumptions: Assumptions, makeup: Makeup) -> int:
    variables = [v for dims in makeup.own for dim in dims for v in variables_of(assumptions.canonical(dim))]
    return sum(map(assumptions.is_assumed, variables))


def _growth(assumptions: Assumptions, makeup: Makeup) -> tuple[float, ...]:
    """Elements of each tensor at twice the batch: as is likely; of rows alone at both ends of doubt too."""

    def likely(variable: int) -> float:
        return 2.0 if assumptions.follows(variable) else 1.0

    def least(variable: int) -> float:
        return 1.0 if assumptions.is_assumed(variable) else likely(variable)

    def most(variable: int) -> float:
        return 2.0 if assumptions.is_assumed(variable) else likely(variable)

    tensors = [dims for dims in (*makeup.own, *(makeup.made or ())) if dims is not None]
    return tuple(
        math.prod(value_of(assumptions.canonical(dim), end) for dim in dims)
        for dims in tensors
        for end in ((likely, least, most) if sum(size_of(dim) > 1 for dim in dims) < _MATRIX else (likely,))
    )
