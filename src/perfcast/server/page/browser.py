"""A view that looks through documents: a choice of them, words to find, and what holds those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from nicegui import run, ui

from perfcast.errors import InputError
from perfcast.report.document import Document, list_tables
from perfcast.server.page.document import DocumentElement, Rendered, render_document
from perfcast.server.page.finding import find_in

#: After the last letter, in seconds.
_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What a view looks through.

    Attributes:
        name: Of the view, in its address.
        choice: What is chosen between, in a word.
        options: Word of the address → what it is called.
        document: Gives the document of a word; not called on the event loop.
        entry: Gives one entry of it by name; None where entries have no page of their own.
        heading: Of the column that names entries.
        hint: What may be looked for.
        links: Below the document: address of the API by word, with ``{name}`` for an entry.
    """

    name: str
    choice: str
    options: Mapping[str, str]
    document: Callable[[str], Document]
    entry: Callable[[str, str], Document] | None = None
    heading: str = "Name"
    hint: str = ""
    links: str = ""


class Browser:
    """One client's look through a shelf; all of it is in the address."""

    def __init__(self, shelf: Shelf, query: str) -> None:
        """Draw it where the caller stands, as an address says."""
        self._shelf = shelf
        self._kind, self._name, find = self._read(query)
        with ui.element("div").classes("shelf"):
            self._choice = ui.select(dict(shelf.options), label=shelf.choice, value=self._kind)
            self._choice.props("outlined dense options-dense").on_value_change(self._choose)
            self._words = ui.input("Find", value=find, placeholder=shelf.hint)
            self._words.props(f"outlined dense stack-label clearable debounce={1000 * _PAUSE_SECONDS:.0f}")
            self._words.on_value_change(self._find)
            self._back = ui.button("All", icon="arrow_back", on_click=self._leave).props("flat no-caps dense")
        self._problem = ui.label().classes("problem").props("role=alert")
        for hidden in (self._back, self._problem):
            hidden.set_visibility(False)
        self._document = DocumentElement(self._open if shelf.entry else None, heading=shelf.heading)
        self._links = ui.html("", sanitize=False)
        ui.on("perfcast_address", lambda event: self._go_back(str(event.args)))
        ui.timer(0, self._show, once=True)

    def _read(self, query: str) -> tuple[str, str, str]:
        """What an address says: of what, which entry, words to find."""
        given = {name: values[0] for name, values in parse_qs(query.removeprefix("?")).items()}
        first = next(iter(self._shelf.options))
        kind = given.get("kind", first)
        known = kind if kind in self._shelf.options else first
        return known, given.get("name", ""), given.get("find", "")

    async def _go_back(self, query: str) -> None:
        self._kind, self._name, find = self._read(query)
        for control, value in ((self._choice, self._kind), (self._words, find)):
            control.set_value(value)
        await self._show()

    async def _choose(self) -> None:
        if self._choice.value != self._kind:
            self._kind, self._name = str(self._choice.value), ""
            await self._show()

    async def _find(self) -> None:
        await self._show()

    async def _leave(self) -> None:
        self._name = ""
        await self._show()

    async def _open(self, cells: Mapping[str, str]) -> None:
        self._name = cells.get(self._shelf.heading, "")
        await self._show(pushes=True)

    async def _show(self, *, pushes: bool = False) -> None:
        rendered = await run.io_bound(_render, self._shelf, self._kind, self._name, self._words.value or "")
        if rendered is None:  # the server is shutting down
            return
        text = rendered if isinstance(rendered, str) else ""
        self._problem.set_text(text)
        self._problem.set_visibility(bool(text))
        self._back.set_visibility(bool(self._name))
        if isinstance(rendered, Rendered):
            self._document.show(rendered)
        self._links.set_content(_links(self._shelf, self._kind, self._name))
        go = ui.navigate.history.push if pushes else ui.navigate.history.replace
        said = {"kind": self._kind, "name": self._name, "find": self._words.value or ""}
        go(f"/{self._shelf.name}?{urlencode({key: value for key, value in said.items() if value})}")


def _render(shelf: Shelf, kind: str, name: str, words: str) -> Rendered | str:
    """What is to be shown; words where there is nothing."""
    try:
        document = shelf.entry(kind, name) if name and shelf.entry else shelf.document(kind)
    except InputError as error:
        return str(error)
    found = document if name else find_in(document, words)
    return render_document(found) if list_tables(found) else f"Nothing holds “{words}”."


def _links(shelf: Shelf, kind: str, name: str) -> str:
    if not shelf.links:
        return ""
    address = shelf.links.format(kind=kind) + (f"/{name}" if name else "")
    return f'<p class="links"><a href="{address}">JSON</a></p>'
