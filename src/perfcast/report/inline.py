"""Documents inside a notebook: cards and the first tables, small, light and dark, without any script."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html import escape
from importlib import resources
from itertools import islice

from perfcast.report.document import Block, Document, Note, Provenance, Section, Table, pick_rows
from perfcast.report.figure import Figure
from perfcast.report.page import render_body
from perfcast.report.svg.draw import svg_of

_WIDTH = 860.0
#: Tables that are shown, and rows of each.
_MOST_TABLES, _MOST_ROWS = 2, 8


def render_inline(document: Document) -> str:
    """The headline, what limits it, and the first tables; the page has everything else.

    Styles reach nothing outside the element, and follow the reader's choice of light or dark.
    """
    tables = islice(_tables(document.blocks, ""), _MOST_TABLES)
    said = (Note(document.limits),) if document.limits else ()
    shown = replace(document, facts=(), blocks=(*said, *tables), assumptions=(), provenance=Provenance())
    body = render_body(shown, lambda _: "")
    title = f'<p class="title">{escape(document.title)}</p>'
    return f'<div class="perfcast-result"><style>{_style()}</style>{title}{body}</div>'


def render_figure_inline(figure: Figure) -> str:
    """One figure, likewise; pointing at it says more."""
    return f'<div class="perfcast-result"><style>{_style()}</style>{svg_of(figure, _WIDTH)}</div>'


def _tables(blocks: tuple[Block, ...], title: str) -> Iterator[Section]:
    """Each table with rows under the heading that it stands under, cut to a few rows."""
    for block in blocks:
        if isinstance(block, Section) and block.only != "terminal":
            yield from _tables(block.blocks, block.title or title)
        elif isinstance(block, Table) and block.rows and block.only != "terminal":
            yield Section(title=block.title or title, blocks=_few_rows(block))


def _few_rows(table: Table) -> tuple[Block, ...]:
    rows = tuple(row for row in pick_rows(table, _MOST_ROWS) if row is not None)
    shown = replace(table, title="", rows=rows)
    if len(rows) == len(table.rows):
        return (shown,)
    return shown, Note(f"{len(rows)} of {len(table.rows)} {table.things}")


@cache
def _style() -> str:
    return resources.files("perfcast.report").joinpath("inline.css").read_text(encoding="utf-8")
