"""One measured memory of one run, whatever table it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfcast.catalog.devices import find_device_name, load_device
from perfcast.core.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer

#: What was measured: the peak that the program allocated, what it still held after a step, what the device
#: held (the allocator's cache), whether it ran at all, or one part.
METRICS = (
    "allocated", "allocated_steady", "reserved", "outcome", "model_states", "activation", "activation_peak",
)  # fmt: skip
#: Which pipeline stage was looked at: the one that needs most, the first or the last.
STAGES = ("peak", "first", "last")
#: By what: PyTorch's allocator, or nvidia-smi, which sees the driver's context too.
INSTRUMENTS = ("allocator", "nvidia-smi")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was run: all that a forecast reads.

    Attributes:
        assumptions: What the table does not state, without a full stop.
    """

    model: Transformer
    plan: Plan
    training: Training
    sequence_length: int
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MemoryCase:
    """One measurement of one run.

    Attributes:
        table, row: File stem and 0-based line.
        source: Whose measurements: 'simumax', 'usp', 'megatron-lm' …
        device: The file's own spelling, blanks as underscores; 'unknown' where it has none.
        num_devices: None where not stated.
        run: None where it cannot be described; ``skipped`` then says why.
        metric: Of ``METRICS``.
        measured_bytes: None for outcomes.
        measured_fits: Of outcomes alone.
        measured_stage, measured_by: Of ``STAGES`` and ``INSTRUMENTS``.
        configuration: Columns that state what was run, verbatim.
        duplicate_of: 'table:line' of the same measurement in another table.
        contradicted_by: Of a failed run: 'table:line' of one that needs at least as much and ran.
    """

    table: str
    row: int
    source: str
    device: str
    catalog_device: str | None
    num_devices: int | None
    run: Run | None
    metric: str
    measured_bytes: int | None = None
    measured_fits: bool | None = None
    measured_stage: str = "peak"
    measured_by: str = "allocator"
    skipped: str | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict)
    duplicate_of: str | None = None
    contradicted_by: str | None = None

    @property
    def label(self) -> str:
        """'table:line'."""
        return f"{self.table}:{self.row}"

    @property
    def accelerator(self) -> Device | None:
        """The catalog's device, if it knows it."""
        return load_device(self.catalog_device) if self.catalog_device else None

    @property
    def capacity_bytes(self) -> int | None:
        """Of the device's memory."""
        device = self.accelerator
        return device.memory_bytes if device else None


class UnreadableError(Exception):
    """A line that is no run that can be forecast.

    Attributes:
        reason: Of ``suite.SKIP_REASONS``, or 'incomplete: <column>'.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Line:
    """A line of a table, asked by column."""

    cells: Mapping[str, Any]

    def find(self, column: str) -> Any:
        """The cell, None where it is empty or the table has no such column."""
        value = self.cells.get(column)
        return None if value is None or (isinstance(value, str) and not value.strip()) else value

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
            return None if value is None else float(value)
        except ValueError:
            raise UnreadableError("impossible value") from None


def spelled(device: str) -> str:
    """A device's name as rows carry it."""
    return device.strip().replace(" ", "_") or "unknown"


def find_catalog_device(spelling: str) -> str | None:
    """The catalog's name of a device as a table spells it; None for a device that it does not know."""
    return find_device_name(spelling) if spelling else None
