"""Questions as they come over HTTP: read strictly, and refused where they name a file of the server."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.errors import InputError
from perfcast.files.plain import parse_json
from perfcast.server.problems import refuse
from perfcast.verbs.question import Question, files_of, plain_of, question_of
from perfcast.verbs.spelled import question_of_address

#: Verb → its address. Verbs that run programs or write files are not asked over HTTP.
ADDRESSES: Mapping[str, str] = {
    "predict": "predict",
    "memory": "memory",
    "search": "search",
    "scale": "scale",
    "serving": "serving",
    "mesh cost": "mesh-cost",
    "shard": "shard",
}
VERBS = {address: verb for verb, address in ADDRESSES.items()}
#: Texts of options are words, plans and lists, none of which is longer.
MOST_LETTERS = 2000
#: Names of the catalog that look like paths: a cluster of servers with fewer devices, ``dgx-h100/4:64``.
_CLUSTER = re.compile(r"[\w-]+/\d+(:\d+)?")
_TIMM = re.compile(r"timm:[\w.]+")
#: Layers of each stage in the text of a plan, which a slash parts too.
_STAGES = re.compile(r"\bstages=\d+(/\d+)+(?=$|[, ])")
_PLANS = ("plan", "prefill_plan", "decode_plan", "fix", "compare")
#: Whole numbers that fit 64 bits; none of the options means anything near it.
_MOST = 2**53


@dataclass(frozen=True, slots=True)
class Asking:
    """A question that may be answered.

    Attributes:
        question: As it was read.
        plain: What it says, and nothing that it does not.
    """

    question: Question
    plain: Mapping[str, object]

    @property
    def key(self) -> str:
        """The same for equal questions, however they were written."""
        return json.dumps([self.question.verb, self.plain], sort_keys=True)


def read_body(body: bytes) -> Mapping[str, object]:
    """A JSON object, strictly: no names twice, no NaN, no letters that are none.

    Raises:
        ProblemError: It is none (400).
    """
    try:
        found = parse_json(body.decode("utf-8"), "the body")
    except (UnicodeDecodeError, InputError):
        raise refuse(400, "The body is not JSON, or says a name twice, or a number that is none.") from None
    if not isinstance(found, dict):
        raise refuse(400, "The body is JSON, but no object of options.")
    return found


def read_question(verb: str, plain: Mapping[str, object], own: Mapping[str, object] | None = None) -> Asking:
    """The question that options ask.

    Args:
        own: Options that the server fills in: recordings that were uploaded.

    Raises:
        InputError: It cannot be asked; it names a file.
    """
    own = own or {}
    for name, value in plain.items():
        _check(name, value)
        if name in own:
            raise InputError(f"{name}: here it is what was uploaded; leave it out")
    return _checked(question_of(verb, {**plain, **own}), own)


def read_address(verb: str, query: str) -> Asking:
    """The question that an address's query asks.

    Raises:
        InputError: As of ``read_question``.
    """
    found = question_of_address(verb, query)
    for name, value in plain_of(found).items():
        _check(name, value)
    return _checked(found, {})


def _checked(question: Question, own: Mapping[str, object]) -> Asking:
    named = sorted((files_of(question).keys() | _paths_of(question)) - own.keys())
    if named:
        raise InputError(
            f"{', '.join(named)}: names a file, and over HTTP no file of the server is read; "
            "give a name of the catalog, or ask on the command line"
        )
    return Asking(question, plain_of(question))


def _paths_of(question: Question) -> set[str]:
    """Fields that say what looks like a path, or like a name by which a library finds files by itself.

    Stricter than ``files_of``: what is no file today may be one tomorrow.
    """
    return {
        name
        for name, value in plain_of(question).items()
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str) and _looks_like_path(name, text)
    }


def _looks_like_path(name: str, text: str) -> bool:
    if name.startswith("cluster"):
        text = ",".join(part for part in text.split(",") if not _CLUSTER.fullmatch(part.strip()))
    if name in _PLANS:
        text = _STAGES.sub("", text)
    if text.startswith("timm:"):
        return _TIMM.fullmatch(text) is None
    return any(sign in text for sign in ("/", "\\", ".."))


def _check(name: str, value: object) -> None:
    """Raises InputError where no option has such a value."""
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, str):
            _check_text(name, one)
        elif isinstance(one, int | float) and not (math.isfinite(one) and abs(one) <= _MOST):
            raise InputError(f"{name}: the number is out of any range")
        elif isinstance(one, list | dict):
            raise InputError(f"{name[:MOST_LETTERS]}: not a word, a number, or a list of them")
    if isinstance(value, list | tuple) and len(value) > MOST_LETTERS:
        raise InputError(f"{name}: at most {MOST_LETTERS} of them")


def _check_text(name: str, text: str) -> None:
    if len(text) > MOST_LETTERS:
        raise InputError(f"{name}: at most {MOST_LETTERS} letters")
    if not text.isprintable():
        raise InputError(f"{name}: has letters that cannot be printed")
