"""JSON and TOML texts as plain data that everything behind can use without fear.

Nesting, digits and characters are bounded: a number fits a float, a text can be written as UTF-8, and what
walks the values does not run out of stack.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from perfcast.errors import InputError

MOST_DEPTH = 64
_LARGEST = 10**300


def parse_json(
    text: str, where: str, *, error: type[InputError] = InputError, may_be_infinite: bool = False
) -> object:
    """The value that a JSON text holds.

    Args:
        where: Of which file, and of what in it, for messages.
        may_be_infinite: Whether NaN and Infinity are taken, as Python's own writer spells them.

    Raises:
        InputError: Of the kind asked for: no JSON, a key twice, nested too deep, or a value out of bounds.
    """
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise error(f"{where}: not valid JSON (nested more than {MOST_DEPTH} deep)") from None
    except ValueError as wrong:
        raise error(f"{where}: not valid JSON ({_short(wrong)})") from None
    check_plain(value, where, error=error, may_be_infinite=may_be_infinite)
    return value


def json_or_none(text: str) -> object:
    """The value of a JSON text inside something else; None where it is none, or out of bounds."""
    try:
        return parse_json(text, "", may_be_infinite=True)
    except InputError:
        return None


def parse_toml(text: str, where: str, *, error: type[InputError] = InputError) -> dict[str, Any]:
    """The table that a TOML text holds.

    Raises:
        InputError: Of the kind asked for: no TOML, nested too deep, or a value out of bounds.
    """
    import tomllib

    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise error(f"{where}: not valid TOML (nested more than {MOST_DEPTH} deep)") from None
    except ValueError as wrong:
        raise error(f"{where}: not valid TOML: {_short(wrong)}") from None
    check_plain(table, where, error=error)
    return table


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice[:80]!r} stands twice in one object")
    return found


def _short(error: ValueError) -> str:
    """What a parser says, without what it advises programmers to do."""
    text = str(error)
    if "integer string conversion" in text:
        return "a whole number of thousands of digits"
    return text if len(text) <= 300 else f"{text[:300]}…"


def check_plain(
    value: object, where: str, *, error: type[InputError] = InputError, may_be_infinite: bool = False
) -> None:
    """Look through plain data level by level.

    Raises:
        InputError: Of the kind asked for: deeper than 64 levels, a number that no float holds, one that is
            not finite, or a text that is no Unicode; says at which key.
    """
    root: _Holder = [value]
    level = [root]
    for _ in range(MOST_DEPTH + 2):
        if not level:
            return
        below: list[_Holder] = []
        for holder in level:
            fault = _look(holder, below, may_be_infinite=may_be_infinite)
            if fault:
                key, what = fault
                raise error(f"{where}: {_place(root, holder, key)}{what}")
        level = below
    raise error(f"{where}: nested more than {MOST_DEPTH} deep")


_Holder = list[Any] | dict[Any, Any]


def _look(holder: _Holder, below: list[_Holder], *, may_be_infinite: bool) -> tuple[object, str] | None:
    """The first fault in a list or table, with its key; lists and tables within go to ``below``."""
    for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
        if isinstance(key, str) and _is_broken(key):
            return None, f"the key {key[:80]!r} is no Unicode text"
        kind = type(item)
        if kind is dict or kind is list:
            below.append(item)
        elif kind is str and _is_broken(item):
            return key, "a text that is no Unicode"
        elif kind is int and not -_LARGEST < item < _LARGEST:
            return key, "a whole number of more than 300 digits"
        elif kind is float and not may_be_infinite and not math.isfinite(item):
            return key, f"{item} is no finite number"
    return None


def _place(root: _Holder, wanted: _Holder, key: object) -> str:
    """Where a fault is, such as ``devices.h100.memory.value: ``; '' for the document itself."""
    stack: list[tuple[_Holder, tuple[object, ...]]] = [(root, ())]
    while stack:
        holder, path = stack.pop()
        if holder is wanted:
            parts = [str(part)[:80] for part in (*path, key)[1:] if part is not None]
            return f"{'.'.join(parts)}: " if parts else ""
        pairs = holder.items() if isinstance(holder, dict) else enumerate(holder)
        stack += [(item, (*path, own)) for own, item in pairs if isinstance(item, list | dict)]
    return ""


def _is_broken(text: str) -> bool:
    """Whether it holds halves of surrogate pairs, which no encoding writes."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
