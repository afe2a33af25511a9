"""Lines of published training runs → cases: what was run, and how long a step took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.evidence.dataset.table import find_tables, read_frame
from perfcast.evidence.validate.memory.rows import configuration_of
from perfcast.evidence.validate.published.runs import NEEDED, PublishedRun, read_published_run
from perfcast.evidence.validate.published.setups import source_of
from perfcast.evidence.validate.runs.lines import Line, read_or_reason, spelled

TABLE = "training"
#: Sources whose throughput is the label; their step time was derived from it.
_BY_THROUGHPUT = ("usp",)


@dataclass(frozen=True, kw_only=True)
class PublishedCase:
    """One line.

    Attributes:
        source: Prefix of its id.
        device: The file's own spelling.
        run: None where ``skipped`` says why.
        measured_seconds: Of a step; None where the line has none.
        configuration: Columns that state what was run, verbatim.
    """

    row: int
    source: str
    device: str
    catalog_device: str | None
    run: PublishedRun | None
    measured_seconds: float | None
    skipped: str | None
    configuration: Mapping[str, Any]

    @property
    def is_complete(self) -> bool:
        """Whether the line states all that a forecast needs, forecast or not."""
        return all(self.configuration.get(column) not in (None, "") for column in NEEDED)


def read_published_cases(places: Sequence[Path]) -> list[PublishedCase]:
    """All lines of the tables of training runs in folders, or of single files; none where no table is.

    Raises:
        InputError: A place does not exist, or a file cannot be read.
    """
    files = find_tables(places, (TABLE,))
    return [_case(row, cells) for path in files for row, cells in enumerate(read_frame(path).to_dicts())]


def _case(row: int, cells: Mapping[str, Any]) -> PublishedCase:
    line = Line(cells)
    spelling = line.text("device") or line.text("gpu")
    device = line.catalog_device
    run, reason = None, _missing(line)
    if reason is None and device is None:
        reason = "unknown device"
    if reason is None and device is not None:
        run, reason = read_or_reason(lambda: read_published_run(cells, device))
    return PublishedCase(
        row=row,
        source=source_of(line),
        device=spelled(spelling),
        catalog_device=device,
        run=run,
        measured_seconds=_measured(line),
        skipped=reason,
        configuration=configuration_of(cells),
    )


def _missing(line: Line) -> str | None:
    column = next((name for name in NEEDED if line.find(name) is None), None)
    return None if column is None else f"incomplete: {column}"


def _measured(line: Line) -> float | None:
    """The stated step time, or the tokens of a step over their rate."""
    seconds = line.positive("step_time_s")
    rate = line.positive("tokens_per_s_per_gpu")
    if rate and (source_of(line) in _BY_THROUGHPUT or not seconds):
        counts = [line.positive(name) for name in ("global_batch", "seq_len", "num_gpus")]
        if all(counts):
            batch, length, devices = (c or 0.0 for c in counts)
            return batch * length / (rate * devices)
    return seconds
