"""Documents as pages: one HTML file that needs nothing else, no network and no other file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib import resources
from zlib import crc32

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
)
from perfcast.report.figure import Figure
from perfcast.report.svg.canvas import Tips
from perfcast.report.svg.draw import NARROW, WIDE, svg_of
from perfcast.report.svg.text import text_width
from perfcast.report.values import WORDS, Value, format_value

#: Rows of a table; --json has all.
MAX_ROWS = 200

#: Letters of a table beside those of figures, and pixels beside a cell's text on a telephone and a screen.
_TABLE_TEXT, _PHONE_PAD, _SCREEN_PAD = 13 / 12, 6, 10

#: The file may run its own script and styles, and reach nothing outside itself.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def render_page(document: Document) -> str:
    """The whole document, its figures as SVG for screens and for telephones."""
    tips = Tips()
    body = render_body(document, lambda figure: svg_figure(figure, tips))
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
</head>
<body>
<main>
<h1>{title}</h1>
{body}
{_footer(document)}
</main>
<div id="tip" role="status" hidden></div>
<script type="application/json" id="tips">{_json(tips.texts)}</script>
<script>{_resource("page.js")}</script>
</body>
</html>
"""


def _json(texts: Sequence[str]) -> str:
    """Texts inside a script element, which only '</' could end."""
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


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
    origin = f"; {escape(provenance.origin)}" if provenance.origin else ""
    return f"<footer>perfcast {escape(provenance.version)}{origin}{command}</footer>"


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
    """A mark that is a name is told from what is said of it, which stands in a column of its own in text."""
    if mark == "·":
        return text
    return f"{mark}: {text}" if mark[-1:].isalnum() or mark.endswith(")") else f"{mark} {text}"


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
    places = [
        place
        for place, column in enumerate(table.columns)
        if _is_shown(column.only) and any(row[place] is not None for row in table.rows)
    ]
    columns = [table.columns[place] for place in places]
    shown = [[row[place] for place in places] for row in table.rows[:MAX_ROWS]]
    numeric = [_is_numeric(column, [row[at] for row in shown]) for at, column in enumerate(columns)]
    head = "".join(
        f'<th scope="col"{_number(is_number)}><button type="button">{escape(column.heading)}</button></th>'
        for column, is_number in zip(columns, numeric, strict=True)
    )
    kinds = _forms(columns, shown)
    labels = _labels([column.heading for column in columns]) if "stacks" in kinds else ("", "")
    body = "".join(_row(row, columns, numeric) for row in shown)
    foot = ""
    if table.total is not None:
        foot = f"<tfoot>{_row([table.total[place] for place in places], columns, numeric)}</tfoot>"
    title = f"<h{level + 1}>{escape(table.title)}</h{level + 1}>" if table.title else ""
    form = f' class="{" ".join(filter(None, (*kinds, labels[0])))}"' if kinds else ""
    html = f"{labels[1]}<table{form}><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table>"
    return f'{title}<div class="scroll" tabindex="0">{html}</div>{_caption(table)}'


def _forms(columns: Sequence[Column], rows: Sequence[Sequence[Value | Cell]]) -> list[str]:
    """Classes of a table that needs more room than a telephone or a screen has: there it has another form."""
    least = 0.0
    for at, column in enumerate(columns):
        is_numeric = _is_numeric(column, [row[at] for row in rows])
        texts = [cell_text(row[at], column) for row in rows]
        parts = texts if is_numeric else [part for text in texts for part in re.split(r"[ \-]|(?<=_)", text)]
        heading = text_width(column.heading, is_bold=True)
        least += max(heading, *map(text_width, parts)) * _TABLE_TEXT
    kinds = []
    if least + 2 * _PHONE_PAD * len(columns) > NARROW:
        kinds.append("stacks")
    if least + 2 * _SCREEN_PAD * len(columns) > WIDE:
        kinds.append("tight")
    return kinds


def _caption(table: Table) -> str:
    if len(table.rows) <= MAX_ROWS:
        return ""
    return f'<p class="note">The first {MAX_ROWS} of {len(table.rows)} {escape(table.things)}.</p>'


def _labels(headings: Sequence[str]) -> tuple[str, str]:
    """A class, and the styles by which each cell of a table of that class stands beside its heading."""
    name = f"t{crc32(chr(0).join(headings).encode()):x}"
    rules = "".join(
        f'.{name} td:nth-child({at})::before{{content:"{_css_text(heading)}"}}'
        for at, heading in enumerate(headings, 1)
        if heading
    )
    return name, f"<style>@media (max-width: 600px) {{{rules}}}</style>"


def _css_text(text: str) -> str:
    """Text inside a string of CSS: whatever is no letter or digit by its number."""
    return "".join(
        letter if letter.isascii() and letter.isalnum() else f"\\{ord(letter):x} " for letter in text
    )


def _row(row: Sequence[Value | Cell], columns: Sequence[Column], numeric: Sequence[bool]) -> str:
    cells = zip(row, columns, numeric, strict=True)
    return f"<tr>{''.join(_cell(*cell) for cell in cells)}</tr>"


def _cell(value: Value | Cell, column: Column, is_number: bool) -> str:
    text = cell_text(value, column)
    number = value.value if isinstance(value, Cell) else value if isinstance(value, (int, float)) else 0.0
    if not is_number:
        return f"<td>{escape(text).replace('_', '_<wbr>')}</td>"
    return f'<td data-value="{float(number):.6g}" class="number">{escape(text)}</td>'


def cell_text(value: Value | Cell, column: Column) -> str:
    """What a cell says."""
    return value.text if isinstance(value, Cell) else format_value(value, column.unit, column.missing)


def _is_numeric(column: Column, values: Iterable[Value | Cell]) -> bool:
    """A column of numbers sorts by them and stands to the right."""
    return bool(column.unit) or any(isinstance(value, (int, float, Cell)) for value in values)


def svg_figure(figure: Figure, tips: Tips | None = None) -> str:
    """A figure twice, of which the page's styles show the one that its room asks for.

    Args:
        tips: Where a page's script finds what pointing shows; None writes titles into the elements.
    """
    wide, narrow = svg_of(figure, WIDE, tips=tips), svg_of(figure, NARROW, tips=tips)
    return (
        f'<div class="figure" id="figure-{escape(figure.name)}">'
        f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div></div>'
    )


def _is_shown(only: Only | None) -> bool:
    return only != "terminal"


def _severity(severity: str) -> str:
    return "" if severity == "plain" else f' class="{severity}"'


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""
