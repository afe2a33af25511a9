"""One client's view: what is asked and shown, and the address that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from nicegui import background_tasks, ui

from perfcast.errors import PerfcastError
from perfcast.server.page.asking import Answered, ask
from perfcast.server.page.document import DocumentElement
from perfcast.server.page.form import Form
from perfcast.server.page.reproduce import Reproduce
from perfcast.server.page.view import Plain, View
from perfcast.verbs.question import Question, plain_of
from perfcast.verbs.spelled import address_of, question_of_address

#: How long controls must stand still before they are asked about.
_STILL_SECONDS = 0.12


class Session:
    """Controls and answer of a view. The last question counts; one is answered at a time.

    Attributes:
        question: That the shown answer is of; None before the first.
    """

    def __init__(self, view: View) -> None:
        """Draw the view where the caller stands."""
        self.view = view
        self.question: Question | None = None
        self._wanted: Plain | None = None
        self._is_asking = False
        self._pushes = False
        self.form = Form(view, self.changed)
        self._headline = ui.link("", "#answer").classes("headline").props("aria-live=polite")
        with ui.element("div").classes("result").props("id=answer") as self._result:
            self._busy = ui.element("div").classes("busy").props("role=status aria-live=polite")
            self.document = DocumentElement(self._look_into if view.has_plans else None)
            self.detail = ui.element("div").classes("detail")
            self._reproduce = Reproduce(view)
        self._busy.set_visibility(False)

    def open(self, query: str) -> None:
        """Ask what an address says, or what the view starts with; the address stays as it is."""
        plain: Plain = self.view.start
        try:
            if query.strip("?"):
                plain = plain_of(question_of_address(self.view.verb, query.removeprefix("?")))
        except PerfcastError as error:
            self.form.show(plain)
            self.form.show_error(str(error))
            return
        self.form.show(plain)
        self._want(plain, pushes=False)

    def changed(self) -> None:
        """A user has changed the controls."""
        self._want(self.form.plain, pushes=True)

    def _want(self, plain: Plain, *, pushes: bool) -> None:
        self._wanted, self._pushes = plain, pushes
        if not self._is_asking:
            self._is_asking = True
            background_tasks.create(self._ask_until_still(), context=ui.context.client)

    async def _ask_until_still(self) -> None:
        try:
            while self._wanted is not None:
                wanted = self._wanted
                if self._pushes:
                    await asyncio.sleep(_STILL_SECONDS)
                    if wanted is not self._wanted:
                        continue
                self._wanted = None
                await self._ask(wanted, pushes=self._pushes)
        finally:
            self._is_asking = False

    async def _ask(self, plain: Plain, *, pushes: bool) -> None:
        self._set_busy(True)
        try:
            answered = await ask(self.view.verb, plain)
        except PerfcastError as error:
            if self._wanted is None:
                self.form.show_error(str(error))
                self._set_busy(False, is_stale=self.question is not None)
            return
        self._show(answered, pushes=pushes)

    def _show(self, answered: Answered, *, pushes: bool) -> None:
        question, rendered = answered.question, answered.rendered
        self.form.show_error("")
        self._headline.set_text(rendered.headline)
        self.document.show(rendered)
        self._reproduce.show(question)
        self._set_busy(False)
        if question != self.question:
            address = f"/{self.view.name}?{address_of(question)}"
            if pushes:
                ui.navigate.history.push(address)
            else:
                ui.navigate.history.replace(address)
        self.question = question

    def _set_busy(self, is_busy: bool, *, is_stale: bool = False) -> None:
        self._busy.set_visibility(is_busy)
        self._result.classes(**({"add": "stale"} if is_stale else {"remove": "stale"}))

    def _look_into(self, cells: Mapping[str, str]) -> None:
        """A plan's row was chosen."""
