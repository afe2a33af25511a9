"""How an answer is had again: the command line, the Python, and files by links to the API."""

from __future__ import annotations

from html import escape

from nicegui import ui

from perfcast.server.page.further import further_links
from perfcast.server.page.view import View
from perfcast.server.questions import ADDRESSES
from perfcast.verbs.question import Question, plain_of
from perfcast.verbs.spelled import address_of, command_line, python_call

_COMMAND, _PYTHON = "perfcast-command", "perfcast-python"
_API = "/api/v1"


class Reproduce:
    """What stands below an answer; it is of the question that was answered last."""

    def __init__(self, view: View) -> None:
        """Draw it where the caller stands."""
        self._view = view
        with ui.element("section").classes("reproduce").props('aria-label="Have it again"') as self._box:
            self._html = ui.html("", sanitize=False)
        self._box.set_visibility(False)

    def show(self, question: Question) -> None:
        """Of another question."""
        self._html.set_content(
            f"{_further(question)}<h3>Have it again</h3>"
            f"{_code('Command line', _COMMAND, command_line(question))}"
            f"{_code('Python', _PYTHON, 'import perfcast as pc' + chr(10) + python_call(question))}"
            f"<p class='links'>{' '.join(self._links(question))}</p>"
        )
        self._box.set_visibility(True)

    def _links(self, question: Question) -> list[str]:
        verb, query = ADDRESSES[question.verb], address_of(question)
        kinds = [("json", "JSON"), ("html", "HTML report")]
        if self._view.has_timeline(plain_of(question)):
            kinds.append(("perfetto", "Perfetto timeline"))
        return [
            f'<a href="{escape(f"{_API}/{verb}/export?{query}&as={kind}")}" download>{text}</a>'
            for kind, text in kinds
        ]


def _further(question: Question) -> str:
    links = [f'<a href="{escape(address)}">{escape(text)}</a>' for text, address in further_links(question)]
    return f"<h3>Go on with it</h3><p class='links'>{' '.join(links)}</p>" if links else ""


def _code(label: str, name: str, text: str) -> str:
    return (
        f'<div class="code"><span>{label}</span><button type="button" data-copy="{name}" '
        f'aria-label="Copy: {label}">Copy</button><pre id="{name}" tabindex="0">{escape(text)}</pre></div>'
    )
