"""Documents as pages: one HTML file that needs nothing else, no network and no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib import resources

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
    Table,
    card_details,
    list_figures,
)
from perfcast.report.figure import Figure
from perfcast.report.values import WORDS, Value, format_value

#: Rows of a table; --json has all.
MAX_ROWS = 200

#: The file may run its own script and styles, and reach nothing outside itself.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def render_page(document: Document) -> str:
    """The whole document; plotly.js is inlined once if it holds a figure."""
    plotly = ""
    if list_figures(document):
        from plotly.offline import get_plotlyjs

        plotly = f"<script>{get_plotlyjs()}</script>"
    title = escape(document.title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{_resource("page.css")}</style>
{plotly}
</head>
<body>
<main>
<h1>{title}</h1>
{render_body(document, _figure)}
{_footer(document)}
</main>
<script>{_resource("page.js")}</script>
</body>
</html>
"""


@cache
def _resource(name: str) -> str:
    return resources.files("perfcast.report").joinpath(name).read_text(encoding="utf-8")


def render_body(document: Document, render_figure: Callable[[Figure], str]) -> str:
    """Everything that a document says below its title, as markup; what a figure becomes is the caller's."""
    head = _headline(document.lead, document.cards, document.facts)
    verdict = f'<p class="verdict alarm">{escape(document.verdict)}</p>' if document.verdict else ""
    parts = [
        f"<section>{verdict}{head}</section>",
        *(_block(block, 2, render_figure) for block in document.blocks),
    ]
    if document.assumptions:
        listed = "".join(f"<li>{escape(text)}</li>" for text in document.assumptions)
        parts.append(f"<section><h2>Assumptions</h2><ul>{listed}</ul></section>")
    sources = document.provenance.sources
    if sources:
        listed = "".join(f"<li>{escape(text)}</li>" for text in sources)
        parts.append(f"<section><h2>Sources</h2><ol>{listed}</ol></section>")
    return "\n".join(parts)


def _footer(document: Document) -> str:
    provenance = document.provenance
    command = f"<br><code>{escape(provenance.command)}</code>" if provenance.command else ""
    return f"<footer>perfcast {escape(provenance.version)}{command}</footer>"


def _headline(lead: str, cards: Sequence[Card], facts: Sequence[Fact]) -> str:
    found = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    shown = [card for card in cards if _is_shown(card.only)]
    if shown:
        found += f'<div class="cards">{"".join(map(_card, shown))}</div>'
    said = [fact for fact in facts if _is_shown(fact.only)]
    if said:
        rows = (
            f"<dt>{escape(fact.label)}</dt><dd{_severity(fact.severity)}>{escape(fact.text)}</dd>"
            for fact in said
        )
        found += f'<dl class="facts">{"".join(rows)}</dl>'
    return found


def _card(card: Card) -> str:
    """A unit that is a word stands below its number, where there is room."""
    value, details = format_value(card.value, card.unit), card_details(card)
    if card.unit in WORDS:
        value, details = value.removesuffix(f" {card.unit}"), [card.unit, *details]
    kind = "" if card.severity == "plain" else f" {card.severity}"
    return (
        f'<div class="card{kind}"><span>{escape(card.label)}</span>'
        f"<strong>{escape(value)}</strong><small>{escape('; '.join(details))}</small></div>"
    )


def _block(block: Block, level: int, render_figure: Callable[[Figure], str]) -> str:
    if not isinstance(block, Figure) and not _is_shown(block.only):
        return ""
    match block:
        case Note():
            return f'<p class="note {block.severity}">{escape(block.text)}</p>'
        case Command():
            return f'<pre class="command">{escape(block.text)}</pre>'
        case Items():
            listed = "".join(f"<li>{escape(_item(*line))}</li>" for line in block.lines)
            return f'<ul class="note">{listed}</ul>' if listed else ""
        case Table():
            return _table(block, level)
        case Figure():
            return render_figure(block)
        case Section():
            return _section(block, level, render_figure)


def _item(mark: str, text: str) -> str:
    return text if mark == "·" else f"{mark} {text}"


def _section(section: Section, level: int, render_figure: Callable[[Figure], str]) -> str:
    inside = "".join(_block(block, level + 1, render_figure) for block in section.blocks)
    body = _headline(section.lead, section.cards, section.facts) + inside
    if not body:
        return ""
    heading = f"<h{level}>{escape(section.title)}</h{level}>" if section.title else ""
    return f"<section>{heading}{body}</section>"


def _table(table: Table, level: int) -> str:
    if not table.rows:
        return ""
    places = [place for place, column in enumerate(table.columns) if _is_shown(column.only)]
    columns = [table.columns[place] for place in places]
    shown = [[row[place] for place in places] for row in table.rows[:MAX_ROWS]]
    numeric = [_is_numeric(column, [row[at] for row in shown]) for at, column in enumerate(columns)]
    head = "".join(
        f'<th scope="col"{_number(is_number)}><button type="button">{escape(column.heading)}</button></th>'
        for column, is_number in zip(columns, numeric, strict=True)
    )
    body = "".join(_row(row, columns, numeric) for row in shown)
    foot = ""
    if table.total is not None:
        foot = f"<tfoot>{_row([table.total[place] for place in places], columns, numeric)}</tfoot>"
    title = f"<h{level + 1}>{escape(table.title)}</h{level + 1}>" if table.title else ""
    html = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table>"
    return f'{title}<div class="scroll" tabindex="0">{html}</div>{_caption(table)}'


def _caption(table: Table) -> str:
    if len(table.rows) <= MAX_ROWS:
        return ""
    return f'<p class="note">The first {MAX_ROWS} of {len(table.rows)} {escape(table.things)}.</p>'


def _row(row: Sequence[Value | Cell], columns: Sequence[Column], numeric: Sequence[bool]) -> str:
    cells = zip(row, columns, numeric, strict=True)
    return f"<tr>{''.join(_cell(*cell) for cell in cells)}</tr>"


def _cell(value: Value | Cell, column: Column, is_number: bool) -> str:
    if isinstance(value, Cell):
        text, number = value.text, value.value
    else:
        text = format_value(value, column.unit, column.missing)
        number = value if isinstance(value, (int, float)) else 0.0
    if not is_number:
        return f"<td>{escape(text)}</td>"
    return f'<td data-value="{float(number)!r}" class="number">{escape(text)}</td>'


def _is_numeric(column: Column, values: Iterable[Value | Cell]) -> bool:
    """A column of numbers sorts by them and stands to the right."""
    return bool(column.unit) or any(isinstance(value, (int, float, Cell)) for value in values)


def _figure(figure: Figure) -> str:
    """A figure's element and script; plotly.js comes with the page."""
    from plotly.io import to_html

    from perfcast.report.plots import draw

    html: str = to_html(
        draw(figure),
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{figure.name}",
        config={"responsive": True, "displaylogo": False, "displayModeBar": False},
    )
    return f'<div class="figure">{html}</div>'


def _is_shown(only: Only | None) -> bool:
    return only != "terminal"


def _severity(severity: str) -> str:
    return "" if severity == "plain" else f' class="{severity}"'


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""
