"""What may follow the batch: variables, joined where operators need two of them to be the same.

Every size that comes from outside (of a tensor that was there before, of a literal that a tensor is made
with) is a variable with evidence for following the batch or against it. An operator that only runs where two
sizes are equal joins their variables; whatever meets a parameter stays. What is joined is decided together,
by its strongest evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from perfcast.traces.scaling.extents import Dim, Factor, Powers, Term, joined

#: The variable of what stays: parameters, and all that meets them.
FIXED = 0
#: Evidence: above 0 it follows the batch. A size that is the batch in front of data is ``CERTAIN``; weaker
#: evidence alone is an assumption, and said.
CERTAIN, SURE = 3.0, 2.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a variable came from: a size of what an operator was given, or made."""

    what: str
    size: int


@dataclass
class Assumptions:
    """Variables, what they are joined to, and the evidence of each."""

    _parents: list[int] = field(default_factory=lambda: [FIXED])
    _evidence: list[float] = field(default_factory=lambda: [0.0])
    _origins: list[Origin] = field(default_factory=lambda: [Origin("a parameter", 0)])
    _members: dict[int, list[int]] = field(default_factory=lambda: {FIXED: [FIXED]})
    _meanings: dict[int, Powers] = field(default_factory=dict)

    def add(self, evidence: float, origin: Origin) -> int:
        """A new variable."""
        self._parents.append(len(self._parents))
        self._evidence.append(evidence)
        self._origins.append(origin)
        self._members[len(self._parents) - 1] = [len(self._parents) - 1]
        return len(self._parents) - 1

    def find(self, variable: int) -> int:
        """The variable that stands for all that are joined."""
        return self._parents[variable]

    def join(self, first: int, second: int) -> bool:
        """Make two the same; False, and nothing, where a parameter's size would follow the batch."""
        a, b = sorted((self.find(first), self.find(second)))
        if a == b:
            return True
        if a in self._meanings or b in self._meanings:
            return False
        if a == FIXED and self.is_certain(b):
            return False
        for member in self._members[b]:
            self._parents[member] = a
        self._members[a] = [*self._members[a], *self._members.pop(b)]
        return True

    def define(self, variable: int, powers: Powers) -> bool:
        """Say that a variable is a product of others; False, and nothing, where it cannot be."""
        root, powers = self.find(variable), self.powers(powers)
        if root == FIXED or root in self._meanings or self.is_certain(root):
            return False
        if any(own == root for own, _ in powers):
            return False
        self._meanings[root] = powers
        return True

    def is_certain(self, variable: int) -> bool:
        """Whether it is the batch itself."""
        return any(self._evidence[member] >= CERTAIN for member in self._members[self.find(variable)])

    def is_sure(self, variable: int) -> bool:
        """Whether something more than an assumption speaks for following the batch."""
        return any(self._evidence[member] >= SURE for member in self._members[self.find(variable)])

    def follows(self, variable: int) -> bool:
        """Whether it follows the batch, by the strongest evidence for or against."""
        root = self.find(variable)
        if root == FIXED:
            return False
        found = [self._evidence[member] for member in self._members[root]]
        return max(found) > 0 and max(found) >= -min(found)

    def is_assumed(self, variable: int) -> bool:
        """Whether that could be otherwise: something speaks for it, and nothing is certain."""
        root = self.find(variable)
        found = [self._evidence[member] for member in self._members[root]]
        return root != FIXED and -1 < max(found) < SURE

    def origin(self, variable: int) -> Origin:
        """The first of the joined that speaks for following the batch."""
        members = self._members[self.find(variable)]
        return self._origins[max(members, key=lambda member: (self._evidence[member], -member))]

    def canonical(self, dim: Dim) -> Dim:
        """The dim in variables that stand for themselves; what stays has none."""
        return tuple(
            Factor(tuple(Term(term.count, self.powers(term.powers)) for term in factor.terms))
            for factor in dim
        )

    def powers(self, powers: Powers) -> Powers:
        """The same of a monomial."""
        found = []
        for variable, power in powers:
            root = self.find(variable)
            if root in self._meanings:
                found += [self.powers(self._meanings[root])] * power
            elif root != FIXED:
                found.append(((root, power),))
        return joined(found)

    @contextmanager
    def tried(self) -> Iterator[list[bool]]:
        """What is joined inside stays only if the list that is handed out is not left empty."""
        before = (list(self._parents), dict(self._members), dict(self._meanings))
        kept: list[bool] = []
        yield kept
        if not kept:
            self._parents, self._members, self._meanings = before
