"""A result as a document: what is said about it, before it is text, a page or anything else.

Every kind of result is made into a document once, by the ``document_of`` of its subject. Renderers (``text``,
``html``) decide how it looks. Values are in SI units and carry them; nothing here is markup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from perfcast.report.figure import Figure
from perfcast.report.values import Unit, Value, format_value
from perfcast.version import perfcast_version

#: Where a part is shown, if not everywhere: a terminal has less room than a page.
Only = Literal["page", "terminal"]
#: How much a statement matters: ``alarm`` is what keeps the answer from being used as it is.
Severity = Literal["plain", "good", "alarm"]
#: Which rows of a long table a terminal shows.
Pick = Literal["first", "ends", "spread"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell whose text is not its value in the column's unit.

    Attributes:
        text: What is shown.
        value: What it is sorted by.
    """

    text: str
    value: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A headline figure.

    Attributes:
        value: In ``unit``; text where the figure is words.
        low, high: Its interval, or None.
        confidence: How likely it is to hold the truth, where that is known.
        whole: What the value is a part of, or None.
        detail: What else is to be said, in a few words.
    """

    label: str
    value: Value
    unit: Unit = ""
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    whole: float | None = None
    detail: str = ""
    severity: Severity = "plain"
    only: Only | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is said in words, with its name; '' goes on with the fact before."""

    label: str
    text: str
    severity: Severity = "plain"
    only: Only | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    text: str
    severity: Severity = "plain"
    only: Only | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """A list.

    Attributes:
        lines: Marks and texts.
    """

    lines: tuple[tuple[str, str], ...]
    only: Only | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, whole: never folded, so that it can be copied."""

    text: str
    only: Only | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        unit: Of its values; '' for text.
        short: Heading where there is little room.
        has_bar: Whether a terminal draws the values, shares of a whole, as bars too.
        folds: Whether long text goes on in the next line; else it is cut.
        cut: The side at which long text loses what does not fit.
        least_width, most_width: Characters that a terminal gives it.
        missing: What stands for None.
        is_below: Whether a terminal writes it under the row.
    """

    heading: str
    unit: Unit = ""
    short: str = ""
    has_bar: bool = False
    folds: bool = True
    cut: Literal["left", "right"] = "right"
    least_width: int | None = None
    most_width: int | None = None
    missing: str = "–"
    is_below: bool = False
    only: Only | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of values.

    Attributes:
        title: '' where the section's heading says it.
        rows: A value, or a cell, for each column.
        total: A last row, set apart.
        things: What the rows are, for '10 of 97 …'.
        most_rows: What a terminal shows of them; None for all.
        pick: Which of them.
        is_wide: Whether it goes past a terminal's edge rather than with columns that are cut to nothing.
    """

    title: str = ""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value | Cell, ...], ...]
    total: tuple[Value | Cell, ...] | None = None
    things: str = "rows"
    most_rows: int | None = None
    pick: Pick = "first"
    is_wide: bool = False
    only: Only | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a document under a heading; sections nest."""

    title: str = ""
    lead: str = ""
    cards: tuple[Card, ...] = ()
    facts: tuple[Fact, ...] = ()
    blocks: tuple[Block, ...] = ()
    only: Only | None = None


Block = Note | Items | Command | Table | Figure | Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where an answer comes from.

    Attributes:
        version: Of perfcast.
        command: That made it, '' where a program did.
        origin: Digests of what is shipped and versions of libraries, in one line.
        sources: That figures refer to by their number, from 1.
    """

    version: str = field(default_factory=perfcast_version)
    command: str = ""
    origin: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole answer.

    Attributes:
        title: What it is of, in one line.
        verdict: What comes before every figure: that it does not fit, or may not; '' where there is nothing.
        lead: How that is set, in one line.
        limits: What limits the headline, or what it consists of, most first, in one line; '' for nothing.
        cards, facts: The headline.
        blocks: Everything else, in the order in which it is read.
        assumptions: What was taken for granted.
    """

    title: str
    verdict: str = ""
    lead: str = ""
    limits: str = ""
    cards: tuple[Card, ...] = ()
    facts: tuple[Fact, ...] = ()
    blocks: tuple[Block, ...] = ()
    assumptions: tuple[str, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)


def list_figures(document: Document) -> tuple[Figure, ...]:
    """All figures, in order, those of nested sections included."""

    def walk(blocks: tuple[Block, ...]) -> tuple[Figure, ...]:
        found: list[Figure] = []
        for block in blocks:
            if isinstance(block, Figure):
                found.append(block)
            elif isinstance(block, Section):
                found += walk(block.blocks)
        return tuple(found)

    return walk(document.blocks)


def list_tables(document: Document) -> tuple[Table, ...]:
    """All tables, in order, those of nested sections included."""

    def walk(blocks: tuple[Block, ...]) -> tuple[Table, ...]:
        found: list[Table] = []
        for block in blocks:
            if isinstance(block, Table):
                found.append(block)
            elif isinstance(block, Section):
                found += walk(block.blocks)
        return tuple(found)

    return walk(document.blocks)


def pick_rows(table: Table, most_rows: int | None) -> list[tuple[Value | Cell, ...] | None]:
    """At most so many rows; None stands for those left out in between."""
    rows = table.rows
    if most_rows is None or len(rows) <= most_rows:
        return list(rows)
    if table.pick == "ends":
        return [*rows[: most_rows - 2], None, rows[-1]]
    if table.pick == "spread":
        last = len(rows) - 1
        return [rows[round(at * last / (most_rows - 1))] for at in range(most_rows)]
    return list(rows[:most_rows])


def card_details(card: Card) -> list[str]:
    """What stands beside a card's value: interval, whole, and what else is to be said."""
    found = []
    if card.low is not None and card.high is not None:
        sure = "" if card.confidence is None else f" with {100 * card.confidence:.0f} %"
        ends = (format_value(end, card.unit) for end in (card.low, card.high))
        found.append(" – ".join(ends) + sure)
    if card.whole is not None:
        found.append(f"of {format_value(card.whole, card.unit)}")
    return [*found, card.detail] if card.detail else found


def say_beside(card: Card, gap: str = " ") -> str:
    """What follows a card's value: ' (106 ms – 168 ms) of 1.00 s: late, on two devices'.

    Args:
        gap: Before the interval.
    """
    details = card_details(card)
    text = ""
    if card.low is not None:
        text = f"{gap}({details.pop(0)})"
    if card.whole is not None:
        text += f" {details.pop(0)}"
    joint = ": " if card.whole is not None else ", "
    return text + "".join(joint + detail for detail in details)


def share_of(part: float, total: float) -> float:
    """A part of a whole; 0 of nothing."""
    return part / total if total else 0.0


def words(name: str) -> str:
    """A key as it is read."""
    return name.replace("_", " ")
