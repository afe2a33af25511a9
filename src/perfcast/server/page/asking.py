"""How the page asks: what is warm in a thread, never on the event loop."""

from __future__ import annotations

from nicegui import run

from perfcast.server.page.document import Rendered, render_document
from perfcast.verbs.answer import answer
from perfcast.verbs.question import Question


async def ask(question: Question) -> Rendered:
    """The answer, ready to be sent.

    Raises:
        PerfcastError: The question cannot be answered; the message says why.
    """
    return await run.io_bound(_answer, question)


def _answer(question: Question) -> Rendered:
    return render_document(answer(question).document())
