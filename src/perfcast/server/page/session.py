"""One client's view: what is asked and shown, and the address that says so."""

from __future__ import annotations

from nicegui import ui

from perfcast.errors import PerfcastError
from perfcast.server.desk import Desk
from perfcast.server.page.asking import Answered
from perfcast.server.page.detail import PlanDialog
from perfcast.server.page.document import DocumentElement
from perfcast.server.page.form import Form
from perfcast.server.page.jobs import JobRunner
from perfcast.server.page.live import LiveRunner
from perfcast.server.page.reproduce import Reproduce
from perfcast.server.page.runner import Address, Runner
from perfcast.server.page.view import Plain, View
from perfcast.verbs.question import plain_of
from perfcast.verbs.spelled import address_of, question_of_address

#: Up to this width figures are drawn for a phone.
NARROW_PIXELS = 640


class Session:
    """Controls and answer of a view, for one client.

    Attributes:
        answered: What is shown; None before the first answer.
        is_narrow: Whether it is shown on a phone.
    """

    def __init__(self, view: View, desk: Desk) -> None:
        """Draw the view where the caller stands."""
        self.view = view
        self.desk = desk
        self.answered: Answered | None = None
        self.is_narrow = False
        self.form = Form(view, self._changed)
        self._headline = ui.link("", "#answer").classes("headline").props("aria-live=polite")
        with ui.element("div").classes("result").props("id=answer") as self._result:
            self._runner: Runner = JobRunner(self) if view.is_job else LiveRunner(self)
            dialog = PlanDialog(self) if view.has_plans else None
            self._document = DocumentElement(dialog.look_into if dialog else None)
            self._reproduce = Reproduce(view)

    async def start(self, query: str) -> None:
        """Ask what an address says, once the browser has said how wide it is."""
        self.is_narrow = bool(await ui.run_javascript(f"innerWidth <= {NARROW_PIXELS}"))
        self.open(query)

    def open(self, query: str) -> None:
        """Ask what an address says, or what the view starts with."""
        plain: Plain = self.view.start
        try:
            if query.strip("?"):
                plain = plain_of(question_of_address(self.view.verb, query.removeprefix("?")))
        except PerfcastError as error:
            self.form.show(plain)
            self.form.show_error(str(error))
            return
        self.form.show(plain)
        self._runner.open(plain)

    def show(self, answered: Answered, *, address: Address) -> None:
        """Show an answer, and say in the address what was asked."""
        self.form.show_error("")
        self._headline.set_text(answered.rendered.headline)
        self._document.show(answered.rendered)
        self._reproduce.show(answered.question)
        self.set_stale(False)
        before, self.answered = self.answered, answered
        if address != "keep" and (before is None or before.question != answered.question):
            go = ui.navigate.history.push if address == "push" else ui.navigate.history.replace
            go(f"/{self.view.name}?{address_of(answered.question)}")

    def show_error(self, text: str) -> None:
        """Say what is wrong beside the controls; the last answer stays, paler."""
        self.form.show_error(text)
        self.set_stale(bool(text) and self.answered is not None)

    def set_stale(self, is_stale: bool) -> None:
        """Whether the answer is of another question than the controls'."""
        self._result.classes(**({"add": "stale"} if is_stale else {"remove": "stale"}))

    def _changed(self) -> None:
        self._runner.changed(self.form.plain)
