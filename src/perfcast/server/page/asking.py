"""How the page asks: in a thread or a process of its own, never on the event loop."""

from __future__ import annotations

from dataclasses import dataclass

from nicegui import run

from perfcast.report.document import Document
from perfcast.server.page.document import Rendered, render_document
from perfcast.server.page.view import Plain
from perfcast.verbs.answer import answer
from perfcast.verbs.question import Question, question_of


@dataclass(frozen=True, slots=True)
class Answered:
    """A question, its answer, and that answer ready to be sent to a page."""

    question: Question
    document: Document
    rendered: Rendered


async def ask(verb: str, plain: Plain) -> Answered:
    """The answer to what controls say.

    Raises:
        PerfcastError: The question cannot be asked or answered; the message says why.
    """
    answered = await run.io_bound(_answer, verb, plain)
    assert answered is not None  # None is of a server that is shutting down
    return answered


def _answer(verb: str, plain: Plain) -> Answered:
    question = question_of(verb, plain)
    document = answer(question).document()
    return Answered(question, document, render_document(document))
