"""One plan of a search looked into: its forecast, and beside the plan that was looked into before."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import background_tasks, ui

from perfcast.errors import PerfcastError
from perfcast.report.compare import compare_documents
from perfcast.report.documents.compared import document_of
from perfcast.server.page.asking import Answered, ask
from perfcast.server.page.document import DocumentElement, render_document
from perfcast.server.page.plans import question_of_plan
from perfcast.server.page.runner import Stage
from perfcast.verbs.spelled import address_of

#: Verb → the view of its answers.
_VIEWS = {"predict": "forecast", "serving": "serving"}


class PlanDialog:
    """Opens over the search; Escape closes it."""

    def __init__(self, stage: Stage) -> None:
        """Draw nothing yet, where the caller stands."""
        self._stage = stage
        self._before: Answered | None = None
        with ui.dialog().props('aria-label="Plan"') as self._dialog, ui.card().classes("detail"):
            with ui.element("div").classes("detail-head"):
                self._link = ui.link("Open in Forecast", "/forecast")
                ui.button(icon="close", on_click=self._dialog.close).props(
                    'flat dense round aria-label="Close"'
                )
            self._problem = ui.label().classes("problem").props("role=alert")
            self._spinner = ui.spinner(size="lg")
            self._compared = DocumentElement()
            self._document = DocumentElement()

    def look_into(self, cells: Mapping[str, str]) -> None:
        """A row was chosen; its plan is forecast."""
        self._dialog.open()
        background_tasks.create(self._ask(cells), context=ui.context.client)

    async def _ask(self, cells: Mapping[str, str]) -> None:
        self._show_problem("")
        self._spinner.set_visibility(True)
        for element in (self._document, self._compared):
            element.set_visibility(False)
        try:
            shown = self._stage.answered
            assert shown is not None  # its row was chosen
            verb, plain = question_of_plan(shown.document, cells)
            narrow = self._stage.is_narrow
            answered = await ask(self._stage.desk, verb, plain, is_narrow=narrow)
        except PerfcastError as error:
            self._show_problem(str(error))
            return
        finally:
            self._spinner.set_visibility(False)
        self._show(answered)

    def _show(self, answered: Answered) -> None:
        view = _VIEWS[answered.question.verb]
        self._link.props(f'href="/{view}?{address_of(answered.question)}"')
        self._document.show(answered.rendered)
        self._document.set_visibility(True)
        before, self._before = self._before, answered
        if before is not None and before.question != answered.question:
            compared = document_of(compare_documents(before.document, answered.document))
            self._compared.show(render_document(compared, is_narrow=self._stage.is_narrow))
            self._compared.set_visibility(True)

    def _show_problem(self, text: str) -> None:
        self._problem.set_text(text)
        self._problem.set_visibility(bool(text))
