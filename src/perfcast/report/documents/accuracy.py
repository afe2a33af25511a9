"""What forecasts are worth: the figures of every suite, as the documentation states them.

Their one source is ``docs/accuracy.md``; an installed package has a copy of it beside its code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from perfcast.errors import InputError
from perfcast.report.document import Block, Column, Command, Document, Note, Section, Table

_NAME = "accuracy.md"
_HEADING = re.compile(r"(#{2,4}) (.+)")
_RULE = re.compile(r"\|[\s:|-]+\|")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_MARKS = re.compile(r"`([^`]*)`|\*\*([^*]+)\*\*")


@cache
def accuracy_document() -> Document:
    """All sections of the page on accuracy, with their tables.

    Raises:
        InputError: Neither the installed copy nor the source tree's page is there.
    """
    return parse_page(_read())


def _read() -> str:
    package = Path(__file__).parents[1]
    for place in (package / _NAME, package.parents[2] / "docs" / _NAME):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise InputError(f"{_NAME} is missing: neither beside the package's reports nor in docs/")


def parse_page(text: str) -> Document:
    """A page of headings, paragraphs, tables and commands, as the documentation's pages are written."""
    head, *parts = re.split(r"\n(?=## )", text)
    title, _, caveats = head.partition("\n")
    first, _, rest = " ".join(caveats.split()).partition(". ")
    return Document(
        title=title.removeprefix("# ").strip(),
        lead=_plain(f"{first.rstrip('.')}."),
        blocks=(*(_section(part, 2) for part in parts), *_blocks(rest)),
    )


def _section(text: str, level: int) -> Section:
    heading, _, body = text.strip().partition("\n")
    own, *inner = re.split(rf"\n(?={'#' * (level + 1)} )", body)
    match = _HEADING.fullmatch(heading.strip())
    title = _plain(match[2]) if match else _plain(heading)
    blocks = (*_blocks(own), *(_section(part, level + 1) for part in inner))
    return Section(title=title, blocks=tuple(blocks))


def _blocks(text: str) -> Iterator[Block]:
    """Paragraphs parted by empty lines; fenced text is commands and what they print."""
    for position, part in enumerate(re.split(r"^```.*$", text, flags=re.MULTILINE)):
        if position % 2:
            yield Command(part.strip("\n"))
            continue
        for paragraph in re.split(r"\n\s*\n", part):
            lines = [line.rstrip() for line in paragraph.strip().splitlines()]
            if len(lines) > 2 and lines[0].startswith("|") and _RULE.fullmatch(lines[1]):
                yield _table(lines)
            elif lines:
                yield Note(_plain(" ".join(line.strip() for line in lines)))


def _table(lines: list[str]) -> Table:
    headings = _cells(lines[0])
    rows = [_cells(line) for line in lines[2:]]
    width = len(headings)
    return Table(
        columns=tuple(Column(heading) for heading in headings),
        rows=tuple(tuple((row + [""] * width)[:width]) for row in rows),
    )


def _cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return [_plain(part.strip().replace("\\|", "|")) for part in parts]


def _plain(text: str) -> str:
    """Without marks of links, code and weight."""
    return _MARKS.sub(lambda found: found[1] or found[2] or "", _LINK.sub(r"\1", text))
