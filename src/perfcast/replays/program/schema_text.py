"""Operator schemas as text: names, arguments and their types, without PyTorch.

A schema is a line such as ``aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor``. In
``Tensor(a!)`` the mark says that the operator writes to the argument, in ``Tensor(a)`` that a result is a
view of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from perfcast.errors import TraceError

_NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?\(")
_ALIAS = re.compile(r"\(([a-z0-9|*\s]*)(!?)(?:\s*->[^)]*)?\)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_INTEGER, _REAL = (
    re.compile(r"-?\d{1,19}"),
    re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d{1,3})?|-?\d+[eE][-+]?\d{1,3}"),
)
_WORDS: dict[str, bool | None] = {"None": None, "True": True, "False": False}
#: Words that stand for PyTorch's numbers (c10/core/MemoryFormat.h, Layout.h; at::Reduction).
_NUMBERS = {"contiguous_format": 0, "preserve_format": 1, "strided": 0, "Mean": 1, "Sum": 2, "long": 4}
#: A schema is a line; longer ones are no schemas.
_MAX_LENGTH = 8192
_CACHED_SCHEMAS = 8192

Literal: TypeAlias = "int | float | bool | str | tuple[Literal, ...] | None"


@dataclass(frozen=True, slots=True)
class SchemaArgument:
    """One argument: ``type`` without marks ('Tensor[]', 'int[2]'), ``default`` as text (``None``: required).

    ``is_written``: the operator changes the tensor. ``is_viewed``: a result may be a view of it.
    """

    name: str
    type: str
    default: str | None
    is_keyword: bool
    is_written: bool
    is_viewed: bool

    def default_value(self) -> Literal:
        """The default as a value: numbers, truth, text, lists of them.

        Raises:
            TraceError: There is none, or it is a word ('contiguous_format') that stands for a number.
        """
        if self.default is None:
            raise TraceError(f"argument '{self.name}' has no default")
        return _literal(self.default)

    @property
    def is_tensor(self) -> bool:
        """Whether a tensor, or a list of them, stands there."""
        return self.type.startswith("Tensor")


@dataclass(frozen=True, slots=True)
class Schema:
    """``operator`` is namespace and name ('aten::add'), ``overload`` '' for the default one."""

    operator: str
    overload: str
    arguments: tuple[SchemaArgument, ...]

    @property
    def namespace(self) -> str:
        """What stands before '::'."""
        return self.operator.partition("::")[0]

    def place(self, name: str) -> int | None:
        """Where the argument of this name stands."""
        return next((i for i, argument in enumerate(self.arguments) if argument.name == name), None)


@lru_cache(maxsize=_CACHED_SCHEMAS)
def parse_schema(text: str) -> Schema:
    """Read a schema.

    Raises:
        TraceError: It is none.
    """
    found = _NAME.match(text) if len(text) <= _MAX_LENGTH else None
    if found is None:
        raise TraceError(f"no operator's schema: {text[:80]!r}")
    inside = _until_closed(text, found.end())
    arguments: list[SchemaArgument] = []
    is_keyword = False
    for part in _split(inside):
        if part == "*":
            is_keyword = True
        else:
            arguments.append(_argument(part, is_keyword, text))
    return Schema(f"{found[1]}::{found[2]}", found[3] or "", tuple(arguments))


def _until_closed(text: str, start: int) -> str:
    depth, quote = 1, ""
    for place in range(start, len(text)):
        character = text[place]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "([") - (character in ")]")
            if depth == 0:
                return text[start:place]
    raise TraceError(f"a schema whose arguments do not end: {text[:80]!r}")


def _split(text: str) -> list[str]:
    """The parts between the commas that stand in no bracket and no quote."""
    parts, depth, start, quote = [], 0, 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
        else:
            depth += (character in "([") - (character in ")]")
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _argument(text: str, is_keyword: bool, schema: str) -> SchemaArgument:
    declared, separator, default = text.partition("=")
    kind, _, name = declared.strip().rpartition(" ")
    if not kind or not _WORD.fullmatch(name):
        raise TraceError(f"a schema with an argument that makes no sense: {schema[:80]!r}")
    marks = _ALIAS.search(kind)
    return SchemaArgument(
        name=name,
        type=_ALIAS.sub("", kind).replace(" ", ""),
        default=default.strip() if separator else None,
        is_keyword=is_keyword,
        is_written=bool(marks and marks[2]),
        is_viewed=bool(marks),
    )


def _literal(text: str) -> Literal:
    if text in _WORDS:
        return _WORDS[text]
    if text in _NUMBERS:
        return _NUMBERS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text.startswith("[") and text.endswith("]"):
        return tuple(_literal(part) for part in _split(text[1:-1]))
    raise TraceError(f"a default that is no value: {text[:40]!r}")
