"""Two answers of one kind side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from perfcast.report import palette
from perfcast.report.blocks import stacked_bars
from perfcast.report.compare import AnswerComparison, ComparedFigure, ComparedPart
from perfcast.report.document import Block, Column, Document, Note, Section, Table
from perfcast.report.values import Unit, Value, format_value

#: Rows of one group on a terminal, and parts of a bar.
_MOST_ROWS, _MOST_PARTS = 10, 7
_TOLD_APART = {True: "told apart", False: "intervals overlap", None: "–"}


def document_of(found: AnswerComparison) -> Document:
    """The headline of both, then what they consist of."""
    groups = [(key, list(parts)) for key, parts in groupby(found.parts, lambda part: (part.group, part.unit))]
    blocks: list[Block] = [Section(blocks=(_figures(found), Note(_about_intervals(found.figures))))]
    moved = [(group, parts) for (group, _), parts in groups if any(part.difference for part in parts)]
    blocks += [_group(at, group, parts) for at, (group, parts) in enumerate(moved)]
    equal = [group for (group, _), parts in groups if not any(part.difference for part in parts)]
    if equal:
        blocks.append(Note(f"The same in both: {', '.join(equal)}."))
    return Document(
        title=f"{found.first_title} compared with {found.second_title}",
        verdict=" ".join(_verdicts(found)),
        lead=f"first: {found.first_lead}; second: {found.second_lead}" if found.first_lead else "",
        limits=_in_a_line(found.figures),
        blocks=tuple(blocks),
    )


def _verdicts(found: AnswerComparison) -> list[str]:
    given = (("First", found.first_verdict), ("Second", found.second_verdict))
    return [f"{name}: {verdict}." for name, verdict in given if verdict]


def _in_a_line(figures: Sequence[ComparedFigure]) -> str:
    """'Step time 12.0 ms and 9.0 ms (× 0.75, told apart)'."""
    if not figures:
        return ""
    first = figures[0]
    values = " and ".join(format_value(value, first.unit) for value in (first.first, first.second))
    ratio = [] if first.ratio is None else [format_value(first.ratio, "×")]
    sure = [] if first.is_told_apart is None else [_TOLD_APART[first.is_told_apart]]
    beside = ", ".join((*ratio, *sure))
    return f"{first.label} {values} ({beside})" if beside else f"{first.label} {values}"


def _about_intervals(figures: Sequence[ComparedFigure]) -> str:
    known = [figure.is_told_apart for figure in figures if figure.is_told_apart is not None]
    if not known:
        return "No figure has an interval in both, so that nothing says whether they can be told apart."
    return (
        "Told apart are figures whose 90 % intervals have nothing in common. Two forecasts of one model err "
        "alike in part, so that where intervals overlap the smaller may still be it."
    )


def _figures(found: AnswerComparison) -> Table:
    return Table(
        columns=(
            Column(""),
            Column("First"),
            Column("Second"),
            Column("Difference"),
            Column("Ratio", "×"),
            Column("Intervals", folds=False),
        ),
        rows=tuple(_figure(figure) for figure in found.figures),
    )


def _figure(figure: ComparedFigure) -> tuple[Value, ...]:
    return (
        figure.label,
        format_value(figure.first, figure.unit),
        format_value(figure.second, figure.unit),
        _signed(figure.difference, figure.unit),
        figure.ratio,
        _TOLD_APART[figure.is_told_apart],
    )


def _signed(difference: float, unit: Unit) -> str:
    sign = "−" if difference < 0 else "+"
    return sign + format_value(abs(difference), unit)


def _group(at: int, group: str, parts: Sequence[ComparedPart]) -> Section:
    unit = parts[0].unit
    table = Table(
        columns=(
            Column("", folds=False),
            Column("First", unit),
            Column("Second", unit),
            Column("Difference", "+s" if unit == "s" else "+B"),
        ),
        rows=tuple((part.label, part.first, part.second, part.difference) for part in parts),
        most_rows=_MOST_ROWS,
        things="parts",
    )
    shown = sorted(parts, key=lambda part: -max(part.first, part.second))[:_MOST_PARTS]
    colours = palette.in_turns(len(shown))
    bars = stacked_bars(
        f"compared-{at}",
        ("First", "Second"),
        [
            (part.label, colour, (part.first, part.second))
            for part, colour in zip(shown, colours, strict=True)
        ],
        unit=unit,
    )
    return Section(title=group or "Parts", blocks=(bars, table))
