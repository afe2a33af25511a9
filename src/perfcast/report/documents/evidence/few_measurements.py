"""How errors fall with measurements on a device, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfcast.report.document import Column, Document, Table
from perfcast.report.values import Value

_TITLES = {"operation": "By operation, every device alike", "device": "By device"}
_BY = {"measured": "of which some were measured", "other": "others"}


def document_of(summary: Sequence[Mapping[str, Any]]) -> Document:
    """Mean error, coverage and width of the interval, side by side for each number of measurements."""
    numbers = sorted({entry["measurements"] for entry in summary})
    return Document(
        title="Errors after measurements on the device",
        blocks=tuple(
            _table([entry for entry in summary if entry["group"] == group], group, numbers)
            for group in _TITLES
        ),
    )


def _table(entries: Sequence[Mapping[str, Any]], group: str, numbers: Sequence[int]) -> Table:
    cells = {(e["value"], e["by"], e["measurements"]): e for e in entries}
    columns = [Column(group, folds=False), Column("kernels", folds=False)]
    for number in numbers:
        columns += [Column(f"{number}: mean", "share"), Column("median", "share"), Column("inside", "share")]
    rows = []
    for value, by in sorted({(e["value"], e["by"]) for e in entries}):
        row: list[Value] = [value, _BY[by]]
        for number in numbers:
            entry = cells[value, by, number]
            row += [entry["mean_error"], entry["median_error"], entry["covered"]]
        rows.append(tuple(row))
    return Table(title=_TITLES[group], columns=tuple(columns), rows=tuple(rows), is_wide=True)
