"""Published systems: what there is, and figures of one beside ours."""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.published.comparison import Comparison
from perfcast.published.systems import System
from perfcast.report.document import Block, Cell, Column, Document, Fact, Items, Note, Section, Table
from perfcast.report.values import Value


def systems_document(systems: Mapping[str, System]) -> Document:
    """All systems, each with what of its figures is reproduced."""
    columns = (Column("Name", folds=False), Column("System"), Column("Where it stands"))
    rows = tuple((name, system.title, system.state) for name, system in systems.items())
    return Document(
        title="Published systems",
        blocks=(
            Table(columns=columns, rows=rows, things="systems"),
            Note("perfcast published NAME prints one system's figures beside ours."),
        ),
    )


def comparison_document(comparison: Comparison) -> Document:
    """One system's figures beside ours."""
    return Document(
        title=f"{comparison.system}: published figures and ours",
        lead=comparison.paper,
        facts=(Fact("How", comparison.protocol),),
        blocks=tuple(_blocks(comparison)),
    )


def _blocks(comparison: Comparison) -> list[Block]:
    blocks: list[Block] = []
    if comparison.figures:
        blocks.append(_table(comparison))
    noted = tuple((one.what, one.note) for one in comparison.figures if one.note)
    if noted:
        blocks.append(Section(title="Single figures", blocks=(Items(noted),)))
    blocks += [Note(text) for text in comparison.notes]
    if comparison.reason:
        blocks.append(Note(comparison.reason))
    return blocks


def _table(comparison: Comparison) -> Table:
    has_place = any(one.where for one in comparison.figures)
    rows: list[tuple[Value | Cell, ...]] = []
    for one in comparison.figures:
        published, ours, difference = one.texts
        cells = (
            Cell(published, one.published or 0.0),
            Cell(ours, one.ours or 0.0),
            Cell(difference, one.difference or 0.0),
        )
        rows.append((one.what, *cells, *([one.where] if has_place else [])))
    columns = (
        Column("Figure"),
        Column("Published", folds=False),
        Column("Ours", folds=False),
        Column("Difference", folds=False),
    )
    place = (Column("Where"),) if has_place else ()
    return Table(columns=(*columns, *place), rows=tuple(rows), things="figures")
