"""Documents for a terminal: 80 columns, readable without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.style import Style
from rich.table import Table as Grid
from rich.text import Text

from perfcast.printer.text import visible
from perfcast.report.document import (
    Block,
    Card,
    Cell,
    Column,
    Command,
    Document,
    Fact,
    Items,
    Note,
    Only,
    Section,
    Severity,
    Table,
    pick_rows,
    say_beside,
)
from perfcast.report.figure import Figure
from perfcast.report.values import Value, format_value

_BAR_WIDTH = 16
#: Of a table that goes past the terminal's edge.
_WIDEST = 200
_STYLES: dict[Severity, str] = {"plain": "", "good": "", "alarm": "bold red"}
_NOTE_STYLES: dict[Severity, str] = {"plain": "dim", "good": "bold", "alarm": "bold red"}
#: The least that a column of text gets, and what the numbers beside it take.
_LEAST_WIDTH, _NUMBERS_WIDTH = 16, 46
#: What names in front of figures have at least, where both do not fit.
_LEAST_NAME = 18


def print_document(document: Document, console: Console) -> None:
    """The whole document, figures left out; names in it command no terminal."""
    document = _readable(document)
    console.print(Text(document.title, style="bold"))
    if document.verdict:
        console.print(Text(document.verdict, style=_STYLES["alarm"]))
    if document.lead:
        console.print(Text(document.lead))
    if document.cards or document.facts:
        console.print()
        _print_headline(document.cards, document.facts, console)
    for block in document.blocks:
        _print_block(block, console)
    if document.assumptions:
        console.print()
        console.print(Text("Assumptions", style="dim"))
        _print_lines(console, (("-", text) for text in document.assumptions))
    if document.provenance.sources:
        console.print()
        numbered = enumerate(document.provenance.sources, 1)
        _print_lines(console, ((f"[{number}]", source) for number, source in numbered))


def _readable(part: Any) -> Any:
    """The same with every text ``visible``, so that it is laid out as it is shown."""
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, tuple):
        return tuple(_readable(one) for one in part)
    if isinstance(part, Figure) or not is_dataclass(part):
        return part
    changed = {one.name: _readable(getattr(part, one.name)) for one in fields(part)}
    return replace(part, **changed)  # type: ignore[type-var]


def _print_headline(cards: Sequence[Card], facts: Sequence[Fact], console: Console) -> None:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    is_first = True
    for card in cards:
        if _is_shown(card.only):
            text = Text(format_value(card.value, card.unit), style="bold" if is_first else "")
            text.append(say_beside(card, gap="  "), style="not bold" if card.severity != "alarm" else "")
            if card.severity == "alarm":
                text.stylize(_STYLES["alarm"])
            grid.add_row(Text(card.label), text)
            is_first = False
    for fact in facts:
        if _is_shown(fact.only):
            grid.add_row(Text(fact.label), Text(fact.text, style=_STYLES[fact.severity]))
    if grid.row_count:
        console.print(grid)


def _print_block(block: Block, console: Console) -> None:
    if isinstance(block, Figure) or not _is_shown(block.only):
        return
    match block:
        case Note():
            console.print(Text(block.text, style=_NOTE_STYLES[block.severity]))
        case Items():
            _print_lines(console, block.lines)
        case Command():
            console.print(Text(block.text), soft_wrap=True)
        case Table():
            _print_table(block, console)
        case Section():
            _print_section(block, console)


def _print_section(section: Section, console: Console) -> None:
    """Under its heading, unless a table that has none of its own takes that."""
    shown = [block for block in section.blocks if not isinstance(block, Figure) and _is_shown(block.only)]
    if not (shown or section.lead or section.cards or section.facts):
        return
    has_head = bool(section.lead or section.cards or section.facts)
    first = shown[0] if shown else None
    if isinstance(first, Table) and not first.title and not has_head:
        _print_table(first, console, section.title)
        shown = shown[1:]
    elif section.title:
        console.print()
        console.print(Text(section.title, style="bold"))
    if section.lead:
        console.print(Text(section.lead))
    _print_headline(section.cards, section.facts, console)
    for block in shown:
        _print_block(block, console)


def _print_table(table: Table, console: Console, title: str = "") -> None:
    """A table after an empty line, without what rounds to nothing; nothing where it has no rows."""
    if not table.rows:
        return
    table = replace(table, rows=_without_zeros(table))
    places = [place for place, column in enumerate(table.columns) if _is_shown(column.only)]
    beside = [place for place in places if not table.columns[place].is_below]
    grid = Grid(
        title=Text(table.title or title) if table.title or title else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        padding=(0, 0 if len(beside) < len(places) else 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    columns = [table.columns[place] for place in beside]
    for at, column in enumerate(columns):
        _add_column(grid, column, is_text=_is_text(table, beside[at]), is_first=at == 0)
    shown = pick_rows(table, table.most_rows)
    cells = [_cells(row, beside, columns, console) for row in shown]
    total = _cells(table.total, beside, columns, console) if table.total is not None else []
    are_names = [_is_text(table, place) for place in beside]
    if not table.is_wide and not columns[0].folds and are_names[0] and not any(are_names[1:]):
        _make_room(grid, columns[0], [*cells, total] if total else cells, console.width)
    for texts in cells:
        grid.add_row(*texts)
    if total:
        grid.add_row(*total, style=Style(bold=True))
    caption = _caption(table, sum(row is not None for row in shown))
    console.print()
    if len(beside) == len(places):
        grid.caption = Text(caption) if caption else None
        if table.is_wide:
            options = console.options.update(max_width=_WIDEST)
            grid.width = max(Measurement.get(console, options, grid).maximum, 1)
            console.print(grid, crop=False, no_wrap=True, overflow="ignore")
        else:
            console.print(grid)
        return
    below = [place for place in places if table.columns[place].is_below]
    _print_interleaved(grid, [_below(table, row, below) for row in shown], console)
    if caption:
        console.print(Text(caption, style="dim"))


def _without_zeros(table: Table) -> tuple[tuple[Value | Cell, ...], ...]:
    """Rows but for those whose share of the whole would be written as 0.0 %; all where all would be."""
    shares = [place for place, column in enumerate(table.columns) if column.has_bar]
    if not shares:
        return table.rows
    kept = tuple(row for row in table.rows if not _is_nothing(row[shares[0]]))
    return kept or table.rows


def _is_nothing(share: Value | Cell) -> bool:
    return isinstance(share, int | float) and format_value(share, "share") in ("0.0 %", "-0.0 %")


def _below(table: Table, row: Sequence[Value | Cell] | None, places: Sequence[int]) -> str:
    """What stands under a row."""
    columns = [(table.columns[place], row[place]) for place in places] if row is not None else []
    texts = (
        value.text if isinstance(value, Cell) else format_value(value, column.unit, column.missing)
        for column, value in columns
    )
    return " · ".join(text for text in texts if text)


def _print_interleaved(grid: Grid, texts: Sequence[str], console: Console) -> None:
    """A table in which a text follows each row; rows do not fold."""
    lines = [
        Text.assemble(*((part.text, part.style or "") for part in line))
        for line in console.render_lines(grid, pad=False)
    ]
    headings = len(lines) - len(texts)
    for line in lines[:headings]:
        console.print(line)
    for line, text in zip(lines[headings:], texts, strict=True):
        console.print(line)
        console.print(Padding(Text(text, style="dim"), (0, 0, 0, 2)))


def _add_column(grid: Grid, column: Column, *, is_text: bool, is_first: bool) -> None:
    heading = Text(column.short or column.heading)
    if not is_text:
        grid.add_column(heading, justify="right", no_wrap=True)
    elif column.folds:
        grid.add_column(heading, overflow="fold", min_width=column.least_width, max_width=column.most_width)
    else:
        least = _LEAST_NAME if is_first else None
        grid.add_column(
            heading, no_wrap=True, overflow="ellipsis", min_width=least, max_width=column.most_width
        )
    if column.has_bar:
        grid.add_column("", no_wrap=True, width=_BAR_WIDTH)


def _make_room(grid: Grid, first: Column, rows: Sequence[list[Text]], width: int) -> None:
    """Cut the names in the first column so that all figures beside them are whole."""
    gap = grid.padding[1] + 1  # behind each column, and the box's own
    beside = range(1, len(grid.columns))
    own = []
    for at in beside:
        heading = Text(str(grid.columns[at].header)).cell_len
        found = max((row[at].cell_len for row in rows if at < len(row)), default=0)
        own.append(grid.columns[at].width or max(heading, found))
    room = max(width - sum(own) - gap * (len(own) + 1), _LEAST_NAME)
    column = grid.columns[0]
    column.max_width = min(column.max_width or room, room)
    for row in rows:
        text = row[0].plain
        if first.cut == "left" and len(text) > column.max_width:
            row[0] = Text("…" + text[1 - column.max_width :])


def _is_text(table: Table, place: int) -> bool:
    return not table.columns[place].unit and not any(
        isinstance(row[place], (int, float, Cell)) for row in table.rows
    )


def _cells(
    row: Sequence[Value | Cell] | None, places: Sequence[int], columns: Sequence[Column], console: Console
) -> list[Text]:
    if row is None:
        return [Text("…"), *[Text("") for _ in places[1:]]]
    found = []
    for place, column in zip(places, columns, strict=True):
        value = row[place]
        if isinstance(value, Cell):
            found.append(Text(value.text))
        else:
            found.append(_text(format_value(value, column.unit, column.missing), column, console))
        if column.has_bar:
            found.append(Text(_bar(value, console)))
    return found


def _text(text: str, column: Column, console: Console) -> Text:
    if column.cut == "left":
        room = max(min(column.most_width or len(text), console.width - _NUMBERS_WIDTH), _LEAST_WIDTH)
        if len(text) > room:
            text = "…" + text[1 - room :]
    return Text(text)


def _bar(value: Value | Cell, console: Console) -> str:
    mark = "█" if console.encoding.lower().startswith("utf") else "#"
    return mark * round(value * _BAR_WIDTH) if isinstance(value, (int, float)) else ""


def _caption(table: Table, num_shown: int) -> str:
    return f"{num_shown} of {len(table.rows)} {table.things}" if num_shown < len(table.rows) else ""


def _print_lines(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Lines of a mark and a text that folds beside it, dim."""
    grid = Grid.grid(padding=(0, 1, 0, 0))
    for mark, text in lines:
        grid.add_row(Text(mark), Text(text))
    if grid.row_count:
        console.print(grid, style="dim")


def _is_shown(only: Only | None) -> bool:
    return only != "page"
