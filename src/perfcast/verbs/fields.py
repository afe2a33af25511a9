"""What one field of a question takes, and values read as that."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from perfcast.errors import QuestionError
from perfcast.ranges import ANY_NUMBER, Range, check_path, check_text, excerpt
from perfcast.verbs.shared.values import read_amount

#: Values that one field of several may hold.
_MOST_ITEMS = 10_000
_IN_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldKind:
    """What plain data a field takes.

    Attributes:
        scalar: Of it, or of each of its items.
        is_list: Whether it takes several.
        words: The closed set that it is one of; None: any.
        bounds: What its numbers may be; None: of no numbers.
        is_amount: Whether its number may also be a text such as '15T'.
        takes_numbers: Whether its text may be given as a number.
        names_file: Whether its text names, or may name, a file of the machine.
    """

    scalar: type
    is_list: bool = False
    words: tuple[str, ...] | None = None
    bounds: Range | None = None
    is_amount: bool = False
    takes_numbers: bool = False
    names_file: bool = False


def read_value(name: str, kind: FieldKind, value: object) -> object:
    """A value as its field holds it.

    Args:
        name: As messages begin.

    Raises:
        QuestionError: One of another type, out of its range or empty.
    """
    if not kind.is_list:
        return _scalar(name, kind, value)
    if not isinstance(value, list | tuple):
        return (_scalar(name, kind, value),)
    if len(value) > _MOST_ITEMS:
        raise QuestionError(f"{name} {len(value):,} values; it takes {_MOST_ITEMS:,} at most")
    return tuple(_scalar(name, kind, item) for item in value)


def _scalar(name: str, kind: FieldKind, value: object) -> object:
    found = _read(name, kind, value)
    if isinstance(found, str):
        check_text(name, found, QuestionError)
        if kind.names_file:
            check_path(name, found, QuestionError)
    elif kind.bounds is not None:
        kind.bounds.check(name, found, QuestionError)  # type: ignore[arg-type]
    return found


def _read(name: str, kind: FieldKind, value: object) -> object:
    """A value in the type of its field, whatever it may be."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind.is_amount and isinstance(value, str):
        return read_amount(name, value)
    if kind.takes_numbers and is_number:
        ANY_NUMBER.check(name, value, QuestionError)  # type: ignore[arg-type]
        return write_number(value)  # type: ignore[arg-type]
    found = _converted(kind.scalar, value)
    if found is None:
        raise QuestionError(f"{name} {excerpt(value)} is not {_IN_WORDS[kind.scalar]}")
    return found


def write_number(value: float) -> str:
    """A number as short as it can be read back."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _converted(scalar: type, value: object) -> Any:
    """A value of a type, also from what Python has beside it, such as an array's number; else None."""
    if scalar is bool or isinstance(value, (scalar, bool)):
        return value if isinstance(value, bool) == (scalar is bool) else None
    if isinstance(value, str) or scalar is str:
        return None
    try:
        return operator.index(value) if scalar is int else _finite(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _finite(value: Any) -> float | int:
    return value if isinstance(value, int) else float(value)
