"""A question as it is written: on a command line, in Python, in a page's address."""

from __future__ import annotations

import shlex
from urllib.parse import parse_qsl, urlencode

from perfcast.errors import QuestionError
from perfcast.verbs.fields import write_number
from perfcast.verbs.question import (
    Question,
    field_kinds,
    option_of,
    plain_of,
    question_class,
    question_of,
)


def command_line(question: Question) -> str:
    """The command that asks the same, such as ``perfcast predict gpt2 --device h100-sxm``.

    Raises:
        QuestionError: As of ``plain_of``.
    """
    plain = plain_of(question)
    arguments = [_texts(plain.pop(name)) for name in question.arguments if name in plain]
    first = [text for texts in arguments for text in texts]
    options = [part for name, value in plain.items() for part in _option(option_of(name), value)]
    words = ["perfcast", *question.verb.split()]
    if any(text.startswith("-") for text in first):
        return shlex.join([*words, *options, "--", *first])
    return shlex.join([*words, *first, *options])


def _option(option: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    if isinstance(value, list) and not isinstance(value[0], str):
        return [option, ",".join(_texts(value))]
    return [part for text in _texts(value) for part in (option, text)]


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [write_number(value) if isinstance(value, float) else str(value)]


def python_call(question: Question) -> str:
    """The call that asks the same, such as ``pc.predict('gpt2', device='h100-sxm')``.

    Raises:
        QuestionError: As of ``plain_of``.
    """
    plain = {name: _alone(value) for name, value in plain_of(question).items()}
    function = {"mesh cost": "mesh_cost"}.get(question.verb, question.verb.replace(" ", "."))
    first = [repr(plain.pop(name)) for name in question.arguments if name in plain]
    return f"pc.{function}({', '.join([*first, *(f'{name}={value!r}' for name, value in plain.items())])})"


def _alone(value: object) -> object:
    """One of several is written by itself."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def address_of(question: Question) -> str:
    """The question as a query string, which ``question_of_address`` reads.

    Raises:
        QuestionError: As of ``plain_of``.
    """
    pairs = [
        (name, str(int(text)) if isinstance(text, bool) else text)
        for name, value in plain_of(question).items()
        for text in (value if isinstance(value, list) else [value])
    ]
    return urlencode(pairs)


def question_of_address(verb: str, query: str) -> Question:
    """The question of a query string: every value is text, several of a name are a list.

    Raises:
        UnknownNameError: As of ``question_of``.
        QuestionError: A value that is not of its field's type.
    """
    kinds = field_kinds(question_class(verb))
    found: dict[str, object] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        kind = kinds.get(name)
        value = text if kind is None else _read(name, str if kind.is_amount else kind.scalar, text)
        if kind is not None and kind.is_list:
            found[name] = (*found.get(name, ()), value)  # type: ignore[misc]
        elif name in found:
            raise QuestionError(f"{name}: said twice")
        else:
            found[name] = value
    return question_of(verb, found)


def _read(name: str, scalar: type, text: str) -> object:
    if scalar is bool:
        return text not in ("", "0", "false")
    try:
        return text if scalar is str else scalar(text)
    except ValueError:
        kind = "a whole number" if scalar is int else "a number"
        raise QuestionError(f"{name}: '{text}' is not {kind}") from None
