"""The answer to any question."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from perfcast.verbs.question import Question, check_question
from perfcast.verbs.result import Shown

#: Takes the share that is done, None where it is not known, and what is being done.
OnProgress = Callable[[float | None, str], None]


def answer(question: Question, *, on_progress: OnProgress | None = None) -> Shown:
    """What the question's verb answers.

    Args:
        on_progress: Called now and then where the verb takes long; what it raises ends the work.

    Raises:
        InputError: A question that cannot be answered; the message says why.
    """
    room = import_module(f"perfcast.verbs.{question.verb.replace(' ', '_')}.answer")
    return cast("Shown", room.answer(check_question(question), on_progress=on_progress))
