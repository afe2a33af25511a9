"""What a verb's question may hold: its fields in words, and as a JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from perfcast.ranges import Range
from perfcast.report.answers import read_attributes
from perfcast.verbs.fields import FieldKind
from perfcast.verbs.question import (
    Question,
    field_kinds,
    plain_fields,
    question_class,
    usual_values,
)

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def described(kind: type[Question]) -> Mapping[str, str]:
    """Field → what the docstrings of a question and of those that it is made of say of it."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Question) and base is not Question:
            found |= read_attributes(base.__dict__.get("__doc__") or "")[1]
    return found


def summary(kind: type[Question]) -> str:
    """What a question asks, as its docstring begins."""
    return read_attributes(kind.__doc__ or "")[0]


def question_schema(verb: str) -> dict[str, Any]:
    """The JSON schema of what ``question_of`` takes.

    Raises:
        UnknownNameError: There is no such verb.
    """
    kind = question_class(verb)
    texts, kinds, usual = described(kind), field_kinds(kind), usual_values(kind)
    properties: dict[str, Any] = {}
    for name, taken in kinds.items():
        entry = _type_of(taken)
        if name in texts:
            entry["description"] = texts[name]
        if name in usual:
            entry["default"] = usual[name]
        properties[name] = entry
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.__name__,
        "description": summary(kind),
        "type": "object",
        "properties": properties,
        "required": [
            one.name
            for one in plain_fields(kind)
            if one.default is MISSING and one.default_factory is MISSING
        ],
        "additionalProperties": False,
    }


def _limits(allowed: Range) -> dict[str, float]:
    low = "exclusiveMinimum" if allowed.is_above else "minimum"
    high = "exclusiveMaximum" if allowed.is_below else "maximum"
    return {low: allowed.smallest, high: allowed.largest}


def _type_of(taken: FieldKind) -> dict[str, Any]:
    one: dict[str, Any] = {"type": _NAMES[taken.scalar]}
    if taken.is_amount or taken.takes_numbers:
        one["type"] = ["number", "string"]
    if taken.words is not None:
        one["enum"] = list(taken.words)
    if taken.bounds is not None:
        one |= _limits(taken.bounds)
    return {"type": "array", "items": one} if taken.is_list else one
