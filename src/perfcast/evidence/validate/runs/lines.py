"""Lines of tables of measured runs, and what a line says was run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from perfcast.catalogs.devices import find_device_name
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import InputError

Reading = TypeVar("Reading")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was run: all that a forecast reads.

    Attributes:
        assumptions: What the table does not state, without a full stop.
        instead: A training that the line leaves as possible as this one; intervals hold both.
    """

    model: Transformer
    plan: Plan
    training: Training
    sequence_length: int
    assumptions: tuple[str, ...] = ()
    instead: Training | None = None


class UnreadableError(Exception):
    """A line that is no run that can be forecast.

    Attributes:
        reason: One of ``row.SKIP_REASONS``, or 'incomplete: <column>'.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Line:
    """A line of a table, asked by column."""

    cells: Mapping[str, Any]

    def find(self, column: str) -> Any:
        """The cell, None where it is empty, NaN, or the table has no such column."""
        value = self.cells.get(column)
        is_empty = value is None or (isinstance(value, str) and not value.strip())
        return None if is_empty or (isinstance(value, float) and math.isnan(value)) else value

    def text(self, column: str) -> str:
        """The cell as text, '' where it is empty."""
        value = self.find(column)
        return "" if value is None else str(value).strip()

    def flag(self, column: str) -> bool:
        """Whether the cell says so; an empty one does not."""
        return self.text(column).lower() in ("true", "yes", "1", "1.0")

    def whole(self, column: str, otherwise: int | None = None) -> int:
        """A whole number of at least 1.

        Raises:
            UnreadableError: Empty with no ``otherwise``, or no such number.
        """
        number = self.number(column)
        if number is None:
            if otherwise is None:
                raise UnreadableError(f"incomplete: {column}")
            return otherwise
        if number < 1 or number != int(number):
            raise UnreadableError("impossible value")
        return int(number)

    def number(self, column: str) -> float | None:
        """Raises UnreadableError where the cell holds something else."""
        value = self.find(column)
        try:
            number = None if value is None else float(value)
        except ValueError:
            raise UnreadableError("impossible value") from None
        if number is not None and not math.isfinite(number):
            raise UnreadableError("impossible value")
        return number

    def positive(self, column: str) -> float | None:
        """A measured number above zero; None where the cell says something else ('OOM')."""
        try:
            number = self.number(column)
        except UnreadableError:
            return None
        return number if number is not None and number > 0 else None

    @property
    def catalog_device(self) -> str | None:
        """The catalog's name of the device that the columns 'device' or 'gpu' name; None for others."""
        return find_device_name(self.text("device")) or find_device_name(self.text("gpu"))


def read_or_reason(read: Callable[[], Reading]) -> tuple[Reading | None, str | None]:
    """What ``read`` makes of a line, or why there is no forecast of it."""
    try:
        return read(), None
    except UnreadableError as error:
        return None, error.reason
    except InputError:  # the plan or the model contradicts itself
        return None, "impossible value"


def spelled(device: str) -> str:
    """A device's name as rows carry it."""
    return device.strip().replace(" ", "_") or "unknown"
