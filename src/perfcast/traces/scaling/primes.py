"""What a call's results grow with, found by running it without memory on sizes of distinct primes.

Every variable among the arguments' sizes is given a prime of its own: a result's size over its recorded one
is a product of powers of these, or else a sum, of which each variable alone then shows its part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from perfcast.traces.scaling.assumptions import Assumptions
from perfcast.traces.scaling.blanks.run import Blank, Blanks, Value, dense_strides, run_blank
from perfcast.traces.scaling.extents import (
    Dim,
    Factor,
    Powers,
    Term,
    fixed,
    growing,
    size_of,
    value_of,
    variables_of,
    whole,
)
from perfcast.traces.scaling.recorded.calls import Argument, ScalingCall, TensorArgument
from perfcast.traces.scaling.rules import Dims, Shape

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
#: Place of a number among a call's arguments: of the argument, and in its list (None: it is none).
Place = tuple[int, "int | None"]


def decoded(
    assumptions: Assumptions,
    call: ScalingCall,
    own: tuple[Dims, ...],
    literals: Mapping[Place, Dim],
    shapes: Sequence[Shape | None],
) -> list[Dims | None] | None:
    """What the results grow with, by the primes in their sizes; None where the call does not run."""
    canonical = tuple(tuple(assumptions.canonical(dim) for dim in dims) for dims in own)
    sizes = {place: assumptions.canonical(dim) for place, dim in literals.items()}
    variables: dict[int, None] = {}
    for dim in (*(d for dims in canonical for d in dims), *sizes.values()):
        variables.update(dict.fromkeys(variables_of(dim)))
    if len(variables) > len(_PRIMES):
        return None
    primes = dict(zip(variables, _PRIMES, strict=False))
    ran = run(call, canonical, sizes, primes)
    if isinstance(ran, str) or len(ran) != len(shapes):
        return None
    found: list[Dims | None] = []
    for place, (old, new) in enumerate(zip(shapes, ran, strict=True)):
        if old is None or new is None:
            found.append(None)
            continue
        if len(old) != len(new.shape):
            return None
        dims = [
            _dim(call, canonical, sizes, primes, (place, at), (a, b))
            for at, (a, b) in enumerate(zip(old, new.shape, strict=True))
        ]
        if None in dims:
            return None
        found.append(tuple(dim for dim in dims if dim is not None))
    return found


def _dim(
    call: ScalingCall,
    own: tuple[Dims, ...],
    literals: Mapping[Place, Dim],
    primes: Mapping[int, int],
    place: tuple[int, int],
    sizes: tuple[int, int],
) -> Dim | None:
    old, new = sizes
    if old == new:
        return fixed(old)
    if not old:
        return None
    for dim in (*(d for dims in own for d in dims), *literals.values()):
        if size_of(dim) == old and value_of(dim, lambda variable: primes.get(variable, 1)) == new:
            return dim
    powers = _powers(Fraction(new, old), primes)
    if powers is None:
        return _sum(call, own, literals, primes, place, sizes)
    return growing(old, powers)


def _sum(
    call: ScalingCall,
    own: tuple[Dims, ...],
    literals: Mapping[Place, Dim],
    primes: Mapping[int, int],
    place: tuple[int, int],
    sizes: tuple[int, int],
) -> Dim | None:
    """A size that is a sum: how much of it grows with each variable."""
    old, new = sizes
    terms, rest = [], old
    for variable in primes:
        ran = run(call, own, literals, {variable: 2})
        blank = None if isinstance(ran, str) else ran[place[0]]
        if blank is None:
            return None
        more = blank.shape[place[1]] - old
        if more > 0:
            terms.append(Term(more, ((variable, 1),)))
            rest -= more
    if rest + sum(t.count * primes[t.powers[0][0]] for t in terms) != new:
        return None
    return (Factor((*terms, Term(rest)) if rest else tuple(terms)),)


def run(
    call: ScalingCall,
    own: Sequence[Dims],
    literals: Mapping[Place, Dim],
    primes: Mapping[int, int],
) -> Blanks | str:
    """Blanks of what a call gives with its sizes' variables at these values (others at 1), or why none."""
    tensors = iter(own)

    def size(dim: Dim) -> int:
        return whole(value_of(dim, lambda variable: primes.get(variable, 1)))

    def value(argument: Argument, place: Place) -> Value:
        if isinstance(argument, TensorArgument):
            shape = tuple(size(dim) for dim in next(tensors))
            if not argument.dtype:
                return None
            return Blank(shape, dense_strides(argument.shape, shape, argument.strides), argument.dtype)
        if isinstance(argument, tuple):
            return tuple(value(item, (place[0], inner)) for inner, item in enumerate(argument))
        if place in literals and type(argument) is int and argument > 1:
            return size(literals[place])
        return argument

    arguments = tuple(value(argument, (index, None)) for index, argument in enumerate(call.arguments))
    return run_blank(call.operator, call.overload, arguments)


def _powers(growth: Fraction, primes: Mapping[int, int]) -> Powers | None:
    """A ratio as a product of powers of variables' primes; None where it is none."""
    if growth.denominator != 1 or growth <= 0:
        return None
    left, found = growth.numerator, []
    for variable, prime in primes.items():
        power = 0
        while left % prime == 0:
            left //= prime
            power += 1
        if power:
            found.append((variable, power))
    return tuple(sorted(found)) if left == 1 else None
