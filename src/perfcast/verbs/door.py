"""A verb as a function of Python: its keywords are the fields of its question, one by one."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar, cast

from perfcast.verbs.question import Question, check_question

P = ParamSpec("P")
Asked = TypeVar("Asked", bound=Question)
Answer = TypeVar("Answer")


def asks(kind: Callable[P, Asked], answer: Callable[[Asked], Answer], *, returns: str) -> Callable[P, Answer]:
    """The function that makes a question of its arguments and answers it.

    Signature and documentation are those of the question, to people, notebooks and type checkers alike, so
    that neither can differ from what is asked.

    Args:
        kind: A class of questions.
        answer: What answers one.
        returns: What is answered, in words.
    """
    question = cast("type[Question]", kind)
    signature = inspect.signature(kind)
    name = question.verb.replace(" ", "_")

    def function(*given: P.args, **named: P.kwargs) -> Answer:
        refuse_unknown(name, named, signature.parameters)
        placed, further = question.arranged(given)
        asked = kind(*placed, **named, **further)  # type: ignore[arg-type]
        check_question(asked)
        return answer(asked)

    function.__name__ = function.__qualname__ = name
    function.__module__ = answer.__module__
    function.__doc__ = _documentation(question, returns)
    function.__signature__ = signature.replace(return_annotation=_annotation(answer))  # type: ignore[attr-defined]
    return function


def refuse_unknown(function: str, named: Iterable[str], known: Iterable[str]) -> None:
    """Raise where a keyword is none of a function's.

    Raises:
        TypeError: Names the close one.
    """
    names = tuple(known)
    for name in named:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
            hint = f"; did you mean {' or '.join(repr(one) for one in close)}?" if close else ""
            raise TypeError(f"{function}() takes no keyword {name!r}{hint}")


def _annotation(answer: Callable[..., object]) -> object:
    return inspect.signature(answer).return_annotation


def _documentation(kind: type[Question], returns: str) -> str:
    """The question's docstring with its fields as arguments, those that it shares first."""
    from perfcast.verbs.schema import described, summary

    fields = described(kind)
    lines = [f"    {name}: {text}" for name, text in fields.items()]
    raises = "    InputError: What cannot be answered; the message says why and what to do."
    return "\n".join(
        [summary(kind), "", "Args:", *lines, "", "Returns:", f"    {returns}", "", "Raises:", raises]
    )
