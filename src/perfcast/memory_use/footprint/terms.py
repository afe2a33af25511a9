"""Terms of a footprint in columns: of n ranks at once, each with a formula for the reader of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.forecast.footprint import PeakCandidate, Term


@dataclass(frozen=True, eq=False, slots=True)
class TermColumn:
    """One part of what n ranks hold.

    Attributes:
        category: One of ``core.tensor.Category``.
        num_bytes: Shape [n], whole numbers; 0 where a rank has none of it.
        formula: In symbols and numbers, of one row.
    """

    name: str
    category: str
    num_bytes: Floats
    formula: str | Callable[[int], str]
    source: str

    def row(self, row: int) -> Term:
        """What one rank holds."""
        formula = self.formula if isinstance(self.formula, str) else self.formula(row)
        return Term(self.name, self.category, int(self.num_bytes[row]), formula, self.source)


class TermGroup:
    """Terms that several peak candidates have in common, and their sum, shape [n]."""

    def __init__(self, terms: Iterable[TermColumn]) -> None:
        self._terms = tuple(terms)
        self._rows: dict[int, tuple[Term, ...]] = {}
        self.num_bytes = np.asarray(sum(term.num_bytes for term in self._terms), dtype=np.float64)

    def row(self, row: int) -> tuple[Term, ...]:
        """Those that one rank has some of."""
        if row not in self._rows:
            self._rows[row] = tuple(term.row(row) for term in self._terms if term.num_bytes[row])
        return self._rows[row]


@dataclass(frozen=True, eq=False, slots=True)
class PeakCandidateColumn:
    """An instant of a step that can be the peak, of n ranks.

    Attributes:
        exists: Shape [n]: whether a rank has such an instant.
    """

    name: str
    exists: Flags
    groups: tuple[TermGroup, ...]

    @property
    def num_bytes(self) -> Floats:
        """Held then, shape [n]; 0 where there is no such instant."""
        return np.where(self.exists, sum(group.num_bytes for group in self.groups), 0.0)

    def row(self, row: int) -> PeakCandidate:
        """What one rank holds."""
        return PeakCandidate(self.name, tuple(term for group in self.groups for term in group.row(row)))
