"""A document in a few lines: what a prompt shows of a result, and what ``--brief`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.report.document import (
    Card,
    Cell,
    Column,
    Document,
    list_tables,
    pick_rows,
    say_beside,
)
from perfcast.report.values import Value, format_value

#: Rows that stand for a table.
_MOST_ROWS = 3
#: Letters of a line.
_MOST_LETTERS = 120


def brief_of(document: Document) -> str:
    """One to six lines: what it is of, whether it fits, the headline, and what limits it."""
    cards = [card for card in document.cards if card.only != "page"]
    lines = [document.title, document.lead, document.verdict]
    if cards:
        lines.append(_whole(cards[0]))
        lines.append(_as_many_as_fit([_short(card) for card in cards[1:]]))
    else:
        lines += (
            _first_rows(document)
            or [f"{fact.label}: {fact.text}" for fact in document.facts if fact.label][:2]
        )
    lines.append(document.limits)
    return "\n".join(_cut(line) for line in lines if line)


def _first_rows(document: Document) -> list[str]:
    """Some rows of the first table, from one end to the other: 'Devices 8 · Step 6.91 s · MFU 55.5 %'."""
    tables = [table for table in list_tables(document) if table.rows and table.only != "page"]
    if not tables:
        return []
    shown = replace(tables[0], pick="spread")
    lines = []
    for row in pick_rows(shown, _MOST_ROWS):
        pairs = zip(shown.columns, row or (), strict=False)
        said = [(column.heading, _text(column, value)) for column, value in pairs if column.heading]
        lines.append(
            _as_many_as_fit([f"{heading} {text}" for heading, text in said if text not in ("", "–")])
        )
    return lines


def _text(column: Column, value: Value | Cell) -> str:
    return value.text if isinstance(value, Cell) else format_value(value, column.unit, column.missing)


def _whole(card: Card) -> str:
    """'Step time 12.3 ms (11.0 ms – 14.0 ms), 2.0 ms of it waiting for the host'."""
    return f"{card.label} {format_value(card.value, card.unit)}{say_beside(card)}"


def _short(card: Card) -> str:
    """A card without its details; a part with its whole."""
    whole = "" if card.whole is None else f" of {format_value(card.whole, card.unit)}"
    return f"{card.label} {format_value(card.value, card.unit)}{whole}"


def _as_many_as_fit(parts: Sequence[str]) -> str:
    line = ""
    for part in parts:
        longer = f"{line} · {part}" if line else part
        if len(longer) > _MOST_LETTERS:
            break
        line = longer
    return line


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_LETTERS else f"{line[: _MOST_LETTERS - 1]}…"
