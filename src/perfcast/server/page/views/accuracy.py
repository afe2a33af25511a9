"""What forecasts are worth, by suite, device, kind and framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from perfcast.report.document import Document, Section
from perfcast.report.documents.accuracy import accuracy_document
from perfcast.server.desk import Desk
from perfcast.server.page.browser import Browser, Shelf
from perfcast.server.page.view import View

#: Of all sections.
_ALL = "all"


@cache
def sections() -> Mapping[str, Section]:
    """Word of the address → section of the page on accuracy."""
    found = [block for block in accuracy_document().blocks if isinstance(block, Section)]
    return {_word(section.title): section for section in found}


def _word(title: str) -> str:
    return "-".join("".join(letter if letter.isalnum() else " " for letter in title.lower()).split())


def _document(kind: str) -> Document:
    whole = accuracy_document()
    if kind == _ALL:
        return whole
    section = sections()[kind]
    return replace(whole, title=section.title, lead="", blocks=section.blocks)


def _build(query: str, desk: Desk) -> None:
    options = {_ALL: "Everything", **{word: section.title for word, section in sections().items()}}
    shelf = Shelf(
        name="accuracy",
        choice="Of what",
        options=options,
        document=_document,
        hint="a device, framework or kind, such as H100, vLLM, experts",
    )
    Browser(shelf, query)


ACCURACY = View(
    name="accuracy",
    title="Accuracy",
    icon="verified",
    lead="How far forecasts were from what was measured; find a device, a framework or a kind like yours.",
    build=_build,
)
