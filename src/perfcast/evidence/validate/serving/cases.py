"""Lines of the measured table as cases: two times each, to the first token and of each further one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.evidence.dataset.table import find_tables, read_frame
from perfcast.evidence.validate.runs.lines import Line, read_or_reason
from perfcast.evidence.validate.serving.setups import ServingSetup, read_setup
from perfcast.evidence.validate.serving.split import Half, half_of
from perfcast.units import MILLI

TABLE = "inference_ttft_tpot_aiconfigurator"
#: Measured columns, by operation.
MEASURED = {"ttft": "silicon_ttft_ms", "tpot": "silicon_tpot_ms"}


@dataclass(frozen=True, kw_only=True)
class ServingCase:
    """One measured point.

    Attributes:
        row: 0-based line.
        measured_seconds: By operation; None where the cell holds no time.
        half: Whether constants may be fitted on it.
        skipped: Why there is no forecast; ``setup`` is then None.
    """

    row: int
    setup: ServingSetup | None
    measured_seconds: Mapping[str, float | None]
    columns: Mapping[str, Any]
    half: Half
    skipped: str | None = None


def read_cases(places: Sequence[Path]) -> list[ServingCase]:
    """All points of the tables in folders, or of single files."""
    return [
        _case(row, cells)
        for path in find_tables(places, (TABLE,))
        for row, cells in enumerate(read_frame(path).to_dicts())
    ]


def _case(row: int, cells: Mapping[str, Any]) -> ServingCase:
    configuration = {name: cell for name, cell in cells.items() if name not in MEASURED.values()}
    setup, skipped = read_or_reason(lambda: read_setup(Line(configuration)))
    times = {name: Line(cells).positive(column) for name, column in MEASURED.items()}
    return ServingCase(
        row=row,
        setup=setup,
        measured_seconds={name: None if ms is None else ms * MILLI for name, ms in times.items()},
        columns=configuration,
        half=half_of(setup.configuration) if setup else "reported",
        skipped=skipped,
    )
