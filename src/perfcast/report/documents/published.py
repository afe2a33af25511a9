"""Published systems: what there is, and figures of one beside ours."""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.published.comparison import Comparison, Plot
from perfcast.published.systems import System
from perfcast.report import palette
from perfcast.report.document import Block, Cell, Column, Document, Fact, Items, Note, Section, Table
from perfcast.report.figure import Axis, Curve, Figure
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
    blocks: list[Block] = [
        Section(title=plot.name, blocks=(draw_plot(plot),), only="page") for plot in comparison.plots
    ]
    if comparison.figures:
        blocks.append(_table(comparison))
    if comparison.row_notes:
        blocks.append(Section(title="About single rows", blocks=(Items(comparison.row_notes),)))
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
        Column("Figure", least_width=28),
        Column("Published", folds=False),
        Column("Ours", folds=False),
        Column("Difference", folds=False),
    )
    place = (Column("Where", only="page"),) if has_place else ()
    return Table(columns=(*columns, *place), rows=tuple(rows), things="figures")


def draw_plot(plot: Plot) -> Figure:
    """Published points and ours: lines where a series is one, marks elsewhere."""
    series = tuple(
        Curve(
            name=one.name,
            colour=palette.TURNS[index % len(palette.TURNS)],
            mode="lines" if one.is_line else "markers",
            x=tuple(x for x, _ in one.points),
            y=tuple(y for _, y in one.points),
            hovers_values=True,
        )
        for index, one in enumerate(plot.series)
    )
    return Figure(
        name=plot.name.replace(" ", "-"),
        series=series,
        height=380,
        legend="above",
        x=Axis(title=plot.x_title, scale="log"),
        y=Axis(title=plot.y_title, unit=plot.y_unit, from_zero=True),
    )
