"""How the page asks: at the desk of the server, as the API does, and never on the event loop."""

from __future__ import annotations

from dataclasses import dataclass

from nicegui import run

from perfcast.errors import InputError
from perfcast.report.document import Document
from perfcast.server.desk import Desk
from perfcast.server.page.document import Rendered, render_document
from perfcast.server.page.view import Plain
from perfcast.server.problems import ProblemError
from perfcast.server.processes.handle import Reply
from perfcast.server.questions import read_question
from perfcast.verbs.question import Question


@dataclass(frozen=True, slots=True)
class Answered:
    """A question, its answer, and that answer ready to be sent to a page."""

    question: Question
    document: Document
    rendered: Rendered


async def ask(desk: Desk, verb: str, plain: Plain, *, is_narrow: bool = False) -> Answered:
    """The answer to what controls say.

    Raises:
        InputError: The question cannot be asked, or has no answer within the server's bounds; it says why.
    """
    asking = read_question(verb, plain)
    try:
        reply = await desk.answer(asking, ("document",))
    except ProblemError as error:
        raise InputError(error.problem.detail) from None
    return await read_reply(asking.question, reply, is_narrow=is_narrow)


async def read_reply(question: Question, reply: Reply, *, is_narrow: bool = False) -> Answered:
    """A reply, ready to be sent."""
    answered = await run.io_bound(_read, question, reply, is_narrow)
    assert answered is not None  # None is of a server that is shutting down
    return answered


def _read(question: Question, reply: Reply, is_narrow: bool) -> Answered:
    document = reply.document
    return Answered(question, document, render_document(document, is_narrow=is_narrow))
