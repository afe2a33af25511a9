"""What a dimension is made of: factors, each with what it grows with.

A dim is the product of its factors, the outermost first: 4096 rows that are 8 samples of 512 tokens are
``(8·b, 512)``, and stay so when they are flattened and taken apart again. A factor is a sum of terms
count · ∏ variableᵖᵒʷᵉʳ (a class token beside the patches of an image: 1 + 196). A variable stands for
something that may follow the batch (``assumptions``); at the recorded batch all are 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

#: (variable, power), in order of variables.
Powers: TypeAlias = "tuple[tuple[int, int], ...]"
#: How many times more a variable is than recorded.
Multiplier: TypeAlias = "Callable[[int], float]"


@dataclass(frozen=True, slots=True)
class Term:
    """``count`` at the recorded batch, times what it grows with."""

    count: int
    powers: Powers = ()

    def value(self, multiplier: Multiplier) -> float:
        """How many there are."""
        found: float = self.count
        for variable, power in self.powers:
            found *= multiplier(variable) ** power
        return found


@dataclass(frozen=True, slots=True)
class Factor:
    """A sum of terms."""

    terms: tuple[Term, ...]

    @property
    def size(self) -> int:
        """As recorded."""
        return sum(term.count for term in self.terms)

    @property
    def is_fixed(self) -> bool:
        """Whether no variable is in it."""
        return not any(term.powers for term in self.terms)

    def value(self, multiplier: Multiplier) -> float:
        """How many there are."""
        return sum(term.value(multiplier) for term in self.terms)


Dim: TypeAlias = "tuple[Factor, ...]"


def fixed(size: int) -> Dim:
    """A dim that nothing changes."""
    return (Factor((Term(size),)),)


def growing(size: int, powers: Powers) -> Dim:
    """A dim of one factor."""
    return (Factor((Term(size, powers),)),)


def size_of(dim: Dim) -> int:
    """As recorded."""
    return math.prod(factor.size for factor in dim)


def value_of(dim: Dim, multiplier: Multiplier) -> float:
    """With the variables at what they are; not whole where a count is an expectation."""
    return math.prod(factor.value(multiplier) for factor in dim)


def whole(value: float) -> int:
    """A size: the nearest whole number, and something of what there was something."""
    return max(1, round(value)) if value > 0 else 0


def joined(powers: Iterable[Powers]) -> Powers:
    """The product of monomials."""
    found: dict[int, int] = {}
    for one in powers:
        for variable, power in one:
            found[variable] = found.get(variable, 0) + power
    return tuple(sorted((v, p) for v, p in found.items() if p))


def monomial(dim: Dim) -> Powers | None:
    """What a dim as a whole grows with; None where it is a sum of terms that grow differently."""
    if any(len({term.powers for term in factor.terms}) > 1 for factor in dim):
        return None
    return joined(factor.terms[0].powers for factor in dim if factor.terms)


def largest_monomial(dim: Dim) -> Powers:
    """The same; of sums, what their largest term grows with."""
    return joined(max(factor.terms, key=lambda term: term.count).powers for factor in dim if factor.terms)


def variables_of(dim: Dim) -> list[int]:
    """All variables of a dim, in order of its factors."""
    return [variable for factor in dim for term in factor.terms for variable, _ in term.powers]


def regrouped(dims: Sequence[Dim], sizes: Sequence[int]) -> list[Dim] | None:
    """The same elements in the same order with other sizes; None where these do not divide the factors.

    A factor that has to be taken apart grows in its outer part.
    """
    left = [factor for dim in dims for factor in dim if factor.size != 1 or not factor.is_fixed]
    found: list[Dim] = []
    for position, size in enumerate(sizes):
        own: list[Factor] = []
        missing = size
        while left and missing > 1:
            taken = _taken(left, missing)
            if taken is None:
                return None
            own.append(taken)
            missing //= taken.size
        if missing != 1:
            return None
        is_last = position == len(sizes) - 1
        while left and left[0].size == 1 and (own or is_last):
            own.append(left.pop(0))
        found.append(tuple(own) or fixed(size))
    return None if any(factor.size != 1 for factor in left) else found


def _taken(left: list[Factor], missing: int) -> Factor | None:
    """The next factor, or as much of it as is missing."""
    factor = left.pop(0)
    if factor.size and missing % factor.size == 0:
        return factor
    if not factor.size or factor.size % missing or len({term.powers for term in factor.terms}) > 1:
        return None
    outer, inner = _shared(factor.terms[0].powers)
    left.insert(0, Factor((Term(factor.size // missing, inner),)))
    return Factor((Term(missing, outer),))


def _shared(powers: Powers) -> tuple[Powers, Powers]:
    """What the outer and the inner part of a factor grow with: pairs of everything have a dim for each."""
    inner = tuple((variable, power - 1) for variable, power in powers if power > 1)
    return tuple((variable, 1) for variable, _ in powers), inner


def added(dims: Sequence[Dim]) -> Dim:
    """Dims one behind the other: as many times one where they are the same, else a sum."""
    if len(set(dims)) == 1:
        return (*fixed(len(dims)), *dims[0]) if len(dims) > 1 else dims[0]
    terms: dict[Powers, int] = {}
    for dim in dims:
        for term in _terms(dim):
            terms[term.powers] = terms.get(term.powers, 0) + term.count
    return (Factor(tuple(Term(count, powers) for powers, count in terms.items())),)


def without_one(dim: Dim) -> Dim:
    """All but one."""
    return (Factor((*_terms(dim), Term(-1))),) if variables_of(dim) else fixed(size_of(dim) - 1)


def _terms(dim: Dim) -> tuple[Term, ...]:
    """A dim as one sum."""
    found: tuple[Term, ...] = (Term(1),)
    for factor in dim:
        found = tuple(
            Term(a.count * b.count, joined((a.powers, b.powers))) for a in found for b in factor.terms
        )
    return found
