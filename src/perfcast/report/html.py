"""A forecast as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MAX_ROWS = 200

#: The file may run its own script and styles, and reach nothing outside itself.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

STYLE, SCRIPT = (
    resources.files("perfcast.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")
)


class Section(NamedTuple):
    """A part of a page: its heading (text) and its body (HTML, already escaped)."""

    heading: str
    body: str


class Card(NamedTuple):
    """A headline figure; all text."""

    label: str
    value: str
    detail: str = ""
    alarm: bool = False


class Cell(NamedTuple):
    """A cell of a table: what is shown, and the number to sort by (None sorts as text)."""

    text: str
    value: float | None = None


def page(title: str, sections: Sequence[Section]) -> str:
    """A self-contained page; plotly.js is inlined once if a section holds a figure.

    ``title`` and headings are text and are escaped; bodies are HTML.
    """
    body = "\n".join(
        f"<section>{f'<h2>{escape(section.heading)}</h2>' if section.heading else ''}{section.body}</section>"
        for section in sections
    )
    plotly = ""
    if any("plotly-graph-div" in section.body for section in sections):
        from plotly.offline import get_plotlyjs

        plotly = f"<script>{get_plotlyjs()}</script>"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{STYLE}</style>
{plotly}
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{body}
<footer>perfcast {escape(perfcast_version())}</footer>
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""


def cards(items: Iterable[Card]) -> str:
    """Headline figures side by side."""
    parts = (
        f'<div class="card{" alarm" if card.alarm else ""}"><span>{escape(card.label)}</span>'
        f"<strong>{escape(card.value)}</strong><small>{escape(card.detail)}</small></div>"
        for card in items
    )
    return f'<div class="cards">{"".join(parts)}</div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table that sorts by a click on a heading; cells with a value align right."""
    rows = list(rows)
    numeric = [any(row[i].value is not None for row in rows) for i in range(len(headings))]
    head = "".join(
        f'<th scope="col"{_number(is_number)}><button type="button">{escape(heading)}</button></th>'
        for heading, is_number in zip(headings, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    rows_html = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll" tabindex="0"><table>{rows_html}</table></div>'


def figure_html(figure: Figure, name: str) -> str:
    """A figure's element and script; plotly.js comes with the page."""
    from plotly.io import to_html

    html: str = to_html(
        figure,
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{name}",
        config={"responsive": True, "displaylogo": False, "displayModeBar": False},
    )
    return f'<div class="figure">{html}</div>'


def left_out(num_rows: int, what: str) -> str:
    """A note under a table that shows ``MAX_ROWS`` of more rows; '' under a full one."""
    return f'<p class="note">The first {MAX_ROWS} of {num_rows} {what}.</p>' if num_rows > MAX_ROWS else ""


def share(part: float, total: float) -> Cell:
    """A part of a whole in percent."""
    fraction = part / total if total else 0.0
    return Cell(f"{100 * fraction:.1f} %", fraction)


def _cell(cell: Cell) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f"<td{value}{_number(cell.value is not None)}>{escape(cell.text)}</td>"


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def words(name: str) -> str:
    """A key as it is read."""
    return name.replace("_", " ")
