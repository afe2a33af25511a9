"""What depends on a few of a plan's degrees is computed once for each different combination of those."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.different import different_rows
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable

T = TypeVar("T")


class Combinations:
    """The different combinations of some columns of n plans.

    Attributes:
        place: Of each plan, shape [n].
    """

    def __init__(self, plans: PlanTable, degrees: Sequence[str]) -> None:
        first, self.place = different_rows([getattr(plans, name) for name in degrees])
        self._plans = [plans.plan(row) for row in first.tolist()]

    def columns(self, figures: Callable[[Plan], Mapping[str, float]]) -> dict[str, Floats]:
        """Figures of each of k combinations, shape [k] each.

        Args:
            figures: Of one plan; they depend on nothing but the columns.
        """
        rows = [figures(plan) for plan in self._plans]
        return {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}


@dataclass(frozen=True, eq=False, slots=True)
class ByCombination(Generic[T]):
    """Figures of k combinations, and which of them each of n plans has.

    Attributes:
        figures: A dataclass of arrays of shape [k], or of such dataclasses.
        place: Shape [n].
    """

    figures: T
    place: Integers

    def take(self, rows: Integers) -> T:
        """Figures of m plans: the same dataclass with arrays of shape [m]."""
        return cast(T, _take(self.figures, self.place[rows]))


def _take(record: Any, rows: Integers) -> Any:
    if not is_dataclass(record):
        return record[rows]
    kind: type[Any] = type(record)
    return kind(*(_take(getattr(record, field.name), rows) for field in fields(record)))
