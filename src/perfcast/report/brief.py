"""A document in a few lines: what a prompt shows of a result, and what ``--brief`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.report.document import Card, Document, card_details
from perfcast.report.values import format_value

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
        lines += [f"{fact.label}: {fact.text}" for fact in document.facts[:2]]
    lines.append(document.limits)
    return "\n".join(_cut(line) for line in lines if line)


def _whole(card: Card) -> str:
    """'Step time 12.3 ms (11.0 ms – 14.0 ms), 2.0 ms of it waiting for the host'."""
    return f"{card.label} {format_value(card.value, card.unit)}{_beside(card, card_details(card))}"


def _beside(card: Card, details: Sequence[str]) -> str:
    if card.low is not None and details:
        return f" ({details[0]})" + "".join(f", {detail}" for detail in details[1:])
    return "".join(f", {detail}" for detail in details)


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
