"""How often the truth lies in 90 % intervals, and how wide they are, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfcast.report.document import Block, Cell, Column, Document, Note, Section, Table

Entry = Mapping[str, Any]
_HEADINGS = {"all": "", "split": "left out"}


def coverage_document(summary: Sequence[Entry], protocol: Mapping[str, Any]) -> Document:
    """One table of all subjects, then each by device, kind, framework, scale and what was left out."""
    whole = [entry for entry in summary if entry["group"] == "all"]
    blocks: list[Block] = [_table("subject", [(entry["subject"], entry) for entry in whole])]
    for name in dict.fromkeys(entry["subject"] for entry in summary):
        mine = [entry for entry in summary if entry["subject"] == name and entry["group"] != "all"]
        inner: list[Block] = [Note(f"Left out: {protocol['left_out'][name]}.")]
        for group in dict.fromkeys(entry["group"] for entry in mine):
            rows = [(str(entry["value"]), entry) for entry in mine if entry["group"] == group]
            inner.append(_table(_HEADINGS.get(group, group), rows))
        blocks.append(Section(title=str(name).capitalize(), blocks=tuple(inner)))
    note = (
        "an interval is honest where 85 to 95 % of the measurements lie inside; of few rows that says little"
    )
    return Document(title="Coverage of the 90 % intervals", blocks=(*blocks, Note(note)))


def _table(heading: str, rows: Sequence[tuple[str, Entry]]) -> Table:
    return Table(
        columns=(
            Column(heading, least_width=24),
            Column("rows"),
            Column("inside", "share"),
            Column("width"),
            Column(""),
        ),
        rows=tuple(
            (name, entry["n"], entry["coverage"], _width(entry), _verdict(entry)) for name, entry in rows
        ),
        is_wide=True,
    )


def _width(entry: Entry) -> Cell:
    width = entry["median_width"]
    return Cell("–") if width is None else Cell(f"{width:.2f} ×", width)


def _verdict(entry: Entry) -> Cell:
    """What is not as it should be."""
    if entry["is_honest"] is None:
        return Cell("few")
    if entry["is_honest"]:
        return Cell("")
    return Cell("too narrow" if entry["coverage"] < 0.9 else "too wide")
