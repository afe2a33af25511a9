"""What of a document holds certain words."""

from __future__ import annotations

from dataclasses import replace

from perfcast.report.document import Block, Cell, Document, Section, Table


def find_in(document: Document, words: str) -> Document:
    """The document with those rows of its tables in which all words occur, whatever their case.

    A table whose title, or section whose heading, holds all of them stays whole; what keeps nothing is left
    out.
    """
    wanted = words.lower().split()
    if not wanted:
        return document
    blocks = (_found(block, wanted) for block in document.blocks)
    return replace(document, blocks=tuple(block for block in blocks if block is not None))


def _found(block: Block, wanted: list[str]) -> Block | None:
    if isinstance(block, Section):
        if _holds(block.title, wanted):
            return block
        inner = (_found(one, wanted) for one in block.blocks)
        kept = tuple(one for one in inner if one is not None)
        return replace(block, blocks=kept) if any(isinstance(one, Table | Section) for one in kept) else None
    if not isinstance(block, Table):
        return block
    if _holds(block.title, wanted):
        return block
    headings = " ".join(column.heading for column in block.columns)
    rows = tuple(row for row in block.rows if _holds(f"{headings} {' '.join(map(_text, row))}", wanted))
    return replace(block, rows=rows, total=None) if rows else None


def _holds(text: str, wanted: list[str]) -> bool:
    low = text.lower()
    return all(word in low for word in wanted)


def _text(value: object) -> str:
    return value.text if isinstance(value, Cell) else str(value)
