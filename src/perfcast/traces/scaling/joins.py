"""Sizes that an operator needs to be the same: which, and what follows for what they grow with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from perfcast.traces.scaling.assumptions import FIXED, Assumptions
from perfcast.traces.scaling.extents import Dim, Powers, fixed, monomial, size_of, variables_of
from perfcast.traces.scaling.primes import Place
from perfcast.traces.scaling.rules import Dims

#: Pairs of sizes joined at once, and attempts, before a call counts as one that cannot be followed.
_MOST_JOINED, _MOST_TRIES = 3, 160


def all_of(done: Sequence[bool]) -> bool:
    """Whether all were done; unlike ``all`` of a generator, none is left undone after one that was not."""
    return all(done)


def join_all(assumptions: Assumptions, pairs: Iterable[tuple[Dim, Dim]]) -> None:
    """Make dims of the same size grow alike, where they can."""
    for a, b in pairs:
        if size_of(a) == size_of(b) > 1:
            join(assumptions, a, b)


def candidates(
    assumptions: Assumptions, own: tuple[Dims, ...], literals: Mapping[Place, Dim]
) -> Iterator[Sequence[tuple[Dim, Dim]]]:
    """Sizes that may have to be the same: all that broadcasting would align, then ever more single pairs.

    First without those that would hold the batch as it is: a layer may be as wide as the batch is large.
    """
    aligned = [
        (a, b)
        for first, second in combinations(own, 2)
        for a, b in zip(reversed(first), reversed(second), strict=False)
        if _differ(assumptions, a, b)
    ]
    free = [pair for pair in aligned if not _holds_the_batch(assumptions, *pair)]
    if free and len(free) < len(aligned):
        yield free
    if aligned:
        yield aligned
    items = [(i, dim) for i, dims in enumerate(own) for dim in dims]
    items += [(-1 - i, dim) for i, dim in enumerate(literals.values())]
    pairs = [(a, b) for (i, a), (j, b) in combinations(items, 2) if i != j and _differ(assumptions, a, b)]
    pairs += [
        ((factor,), literal)
        for _, dim in items
        for factor in dim
        for literal in literals.values()
        if len(dim) > 1 and _differ(assumptions, (factor,), literal)
    ]
    pairs += [
        (dim, fixed(size_of(dim)))
        for _, dim in items
        if assumptions.canonical(dim) != dim or variables_of(dim)
    ]
    tries = 0
    for count in range(1, _MOST_JOINED + 1):
        for chosen in combinations(pairs, count):
            tries += 1
            if tries > _MOST_TRIES:
                return
            yield chosen


def _holds_the_batch(assumptions: Assumptions, a: Dim, b: Dim) -> bool:
    """Whether one of two sizes is a number and the other follows the batch."""
    one, other = (variables_of(assumptions.canonical(dim)) for dim in (a, b))
    return bool(one) != bool(other) and any(map(assumptions.follows, (*one, *other)))


def _differ(assumptions: Assumptions, a: Dim, b: Dim) -> bool:
    if size_of(a) != size_of(b) or size_of(a) < 2:
        return False
    canonical = assumptions.canonical
    return monomial(canonical(a)) != monomial(canonical(b)) or monomial(canonical(a)) is None


def join(assumptions: Assumptions, a: Dim, b: Dim) -> bool:
    """Make two dims grow alike."""
    first, second = assumptions.canonical(a), assumptions.canonical(b)
    one, other = monomial(first), monomial(second)
    if one is not None and other is not None:
        return _equate(assumptions, *_without_common(one, other))
    goal, rest = (one, second) if one is not None else (other, first)
    if goal is None or len(goal) > 1 or (goal and goal[0][1] > 1):
        return False
    aim = goal[0][0] if goal else FIXED
    return all_of([assumptions.join(aim, variable) for variable in variables_of(rest)])


def _equate(assumptions: Assumptions, one: Powers, other: Powers) -> bool:
    """Make two monomials without common variables the same."""
    if not one or not other:
        return all_of([assumptions.join(FIXED, variable) for variable, _ in (*one, *other)])
    for own, goal in ((one, other), (other, one)):
        if len(own) == 1 and own[0][1] == 1:
            if len(goal) == 1 and goal[0][1] == 1:
                return assumptions.join(own[0][0], goal[0][0])
            if assumptions.define(own[0][0], goal):
                return True
    return False


def _without_common(one: Powers, other: Powers) -> tuple[Powers, Powers]:
    """Two monomials without what both have."""
    a, b = dict(one), dict(other)
    return (
        tuple((v, p - min(p, b.get(v, 0))) for v, p in one if p > b.get(v, 0)),
        tuple((v, p - min(p, a.get(v, 0))) for v, p in other if p > a.get(v, 0)),
    )
