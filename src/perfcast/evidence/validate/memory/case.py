"""One measured memory of one run, whatever table it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perfcast.catalogs.devices import load_device
from perfcast.core.machine.hardware import Device
from perfcast.evidence.validate.runs.lines import Run

#: What was measured: the peak that the program allocated, what it still held after a step, what the device
#: held (the allocator's cache), whether it ran at all, or one part.
METRICS = (
    "allocated",
    "allocated_steady",
    "reserved",
    "outcome",
    "model_states",
    "activation",
    "activation_peak",
)
#: Which pipeline stage was looked at: the one that needs most, the first or the last.
MeasuredStage = Literal["peak", "first", "last"]
#: By what: PyTorch's allocator, or nvidia-smi, which sees the driver's context too.
Instrument = Literal["allocator", "nvidia-smi"]


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
        measured_stage, measured_by: Which pipeline stage was looked at, and by what.
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
    measured_stage: MeasuredStage = "peak"
    measured_by: Instrument = "allocator"
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
