"""Two answers of one kind side by side, card by card and part by part, as their documents say them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from perfcast.report.answers import Answer
from perfcast.report.document import Block, Card, Cell, Column, Document, Section, Table
from perfcast.report.values import Unit, Value, format_value

#: Units of which parts are compared.
_OF_PARTS = ("s", "B")


@dataclass(frozen=True, kw_only=True)
class ComparedFigure:
    """A headline figure of both.

    Attributes:
        label: What it is.
        unit: Of all values; '' for plain numbers.
        first: Of the first answer.
        second: Of the second.
        first_low: Lower end of its 90 % interval; null where it has none.
        first_high: Upper end.
        second_low: Lower end of the second's interval.
        second_high: Upper end.
        difference: The second less the first.
        ratio: The second over the first; null where that is 0.
        is_told_apart: Whether the intervals have nothing in common; null where one has none.
    """

    label: str
    unit: Unit
    first: float
    second: float
    first_low: float | None
    first_high: float | None
    second_low: float | None
    second_high: float | None
    difference: float
    ratio: float | None
    is_told_apart: bool | None


@dataclass(frozen=True, kw_only=True)
class ComparedPart:
    """A part of what both consist of.

    Attributes:
        group: What it is a part of.
        label: Its name.
        unit: 's' or 'B'.
        first: Of the first answer; 0 where it has no such part.
        second: Of the second.
        difference: The second less the first.
    """

    group: str
    label: str
    unit: Unit
    first: float
    second: float
    difference: float


@dataclass(frozen=True, kw_only=True)
class AnswerComparison(Answer):
    """Two answers of one kind side by side.

    Attributes:
        first_title: What the first is of.
        second_title: What the second is of.
        first_lead: How the first is set.
        second_lead: How the second is set.
        first_verdict: With what the first begins where it does not fit, or may not; else empty.
        second_verdict: The same of the second.
        figures: Those of the headline that both have.
        parts: What these consist of, the largest differences first in each group.
    """

    table: ClassVar[str] = "figures"

    first_title: str
    second_title: str
    first_lead: str
    second_lead: str
    first_verdict: str
    second_verdict: str
    figures: tuple[ComparedFigure, ...]
    parts: tuple[ComparedPart, ...]


def compare_documents(first: Document, second: Document) -> AnswerComparison:
    """What both documents say in numbers, side by side."""
    return AnswerComparison(
        first_title=first.title,
        second_title=second.title,
        first_lead=first.lead,
        second_lead=second.lead,
        first_verdict=first.verdict,
        second_verdict=second.verdict,
        figures=tuple(_figures(first, second)),
        parts=tuple(_parts(first, second)),
    )


def _figures(first: Document, second: Document) -> Iterator[ComparedFigure]:
    others = {card.label: card for card in second.cards}
    for card in first.cards:
        other = others.get(card.label)
        if other is None or card.unit != other.unit:
            continue
        before, after = card.value, other.value
        if isinstance(before, int | float) and isinstance(after, int | float):
            yield ComparedFigure(
                label=card.label,
                unit=card.unit,
                first=before,
                second=after,
                first_low=card.low,
                first_high=card.high,
                second_low=other.low,
                second_high=other.high,
                difference=after - before,
                ratio=after / before if before else None,
                is_told_apart=_is_told_apart(card, other),
            )
    if not first.cards and not second.cards:
        yield from _rows(first, second)


def _rows(first: Document, second: Document) -> Iterator[ComparedFigure]:
    """Of answers without a headline, such as sweeps: the rows that the first tables of both have."""
    tables = [
        next((table for _, table in _tables(one.blocks, "") if table.rows), None) for one in (first, second)
    ]
    if tables[0] is None or tables[1] is None:
        return
    mine, others = (_by_key(table) for table in tables if table is not None)
    for (key, unit), before in mine.items():
        after = others.get((key, unit))
        if after is not None:
            yield ComparedFigure(
                label=key,
                unit=unit,
                first=before,
                second=after,
                first_low=None,
                first_high=None,
                second_low=None,
                second_high=None,
                difference=after - before,
                ratio=after / before if before else None,
                is_told_apart=None,
            )


def _by_key(table: Table) -> dict[tuple[str, Unit], float]:
    """What leads each row, and its first time, or else its first figure that has a unit."""
    units = [column.unit for column in table.columns]
    place = (
        units.index("s") if "s" in units else next((at for at, unit in enumerate(units[1:], 1) if unit), None)
    )
    if place is None:
        return {}
    found = {}
    for row in table.rows:
        pairs = zip(table.columns[:place], row[:place], strict=True)
        lead = [_text(column, value) for column, value in pairs if column.heading]
        value = row[place]
        if isinstance(value, int | float):
            found[f"{', '.join(lead)}: {table.columns[place].heading}", units[place]] = float(value)
    return found


def _text(column: Column, value: Value | Cell) -> str:
    return value.text if isinstance(value, Cell) else format_value(value, column.unit, column.missing)


def _is_told_apart(one: Card, other: Card) -> bool | None:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.high < other.low or other.high < one.low


def _parts(first: Document, second: Document) -> Iterator[ComparedPart]:
    others = dict(_amounts(second))
    for (group, unit), amounts in _amounts(first):
        after = others.get((group, unit))
        if after is None:
            continue
        found = [
            ComparedPart(
                group=group,
                label=label,
                unit=unit,
                first=amounts.get(label, 0.0),
                second=after.get(label, 0.0),
                difference=after.get(label, 0.0) - amounts.get(label, 0.0),
            )
            for label in dict.fromkeys((*amounts, *after))
        ]
        yield from sorted(found, key=lambda part: -abs(part.difference))


def _amounts(document: Document) -> Iterator[tuple[tuple[str, Unit], dict[str, float]]]:
    """Tables that cut a whole in parts (a name, an amount, a share), by their title and unit."""
    for title, table in _tables(document.blocks, ""):
        units = [column.unit for column in table.columns[:3]]
        if len(units) < 3 or units[0] or units[1] not in _OF_PARTS or units[2] != "share":
            continue
        pairs = ((row[0], row[1]) for row in table.rows)
        yield (
            (title, units[1]),
            {
                name: float(amount)
                for name, amount in pairs
                if isinstance(name, str) and isinstance(amount, int | float)
            },
        )


def _tables(blocks: tuple[Block, ...], title: str) -> Iterator[tuple[str, Table]]:
    for block in blocks:
        if isinstance(block, Table):
            yield block.title or title, block
        elif isinstance(block, Section):
            yield from _tables(block.blocks, block.title or title)
