"""Tables and lists for a terminal: what the texts of all results share."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

BAR_WIDTH = 16


def print_list(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Lines of a mark and a text that folds beside it, dim."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for mark, text in lines:
        grid.add_row(Text(mark), Text(text))
    console.print(grid, style="dim")


def print_table(console: Console, table: Table) -> None:
    """A table after an empty line; nothing else where it has no rows."""
    console.print()
    if table.row_count:
        console.print(table)


def new_table(title: str) -> Table:
    """A table with a line under its headings and none around."""
    return Table(
        title=title or None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )


def shares_table(title: str, label: str, amount: str) -> Table:
    """A table of amounts, their shares and bars (``share``)."""
    table = new_table(title)
    table.add_column(label, no_wrap=True, overflow="ellipsis", min_width=18)
    table.add_column(amount, justify="right", no_wrap=True)
    table.add_column("Share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=BAR_WIDTH)
    return table


def share(part: float, total: float, console: Console) -> tuple[str, str]:
    """A part of a whole in percent and as a bar."""
    fraction = part / total if total else 0.0
    mark = "█" if console.encoding.lower().startswith("utf") else "#"
    return percent(fraction), mark * round(fraction * BAR_WIDTH)


def new_grid() -> Table:
    """Names and values side by side."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def plain(*values: object) -> list[Text]:
    """Cells in which nothing is read as markup."""
    return [Text(str(value)) for value in values]


def words(name: str) -> str:
    """A key as it is read."""
    return name.replace("_", " ")


def percent(fraction: float) -> str:
    """A fraction in percent."""
    return f"{100 * fraction:.1f} %"
