"""JSON and TOML texts as plain data that everything behind can use without fear.

Nesting, digits and characters are bounded: a number fits a float, a text can be written as UTF-8, and what
walks the values does not run out of stack.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

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
    level: list[object] = [[value]]
    for depth in range(MOST_DEPTH + 2):
        if not level:
            return
        level = [item for holder in level for item in _checked(holder, where, error, may_be_infinite, depth)]
    raise error(f"{where}: nested more than {MOST_DEPTH} deep")


def _checked(
    holder: object, where: str, error: type[InputError], may_be_infinite: bool, depth: int
) -> Iterator[object]:
    """The lists and tables in one; everything else is judged."""
    is_table = isinstance(holder, dict)
    pairs = (
        holder.items() if isinstance(holder, dict) else enumerate(holder if isinstance(holder, list) else ())
    )
    for key, item in pairs:
        kind = type(item)
        if is_table and not str(key).isascii() and _is_broken(str(key)):
            raise error(f"{where}: the key {str(key)[:80]!r} is no Unicode text")
        if kind is dict or kind is list:
            yield item
        elif (kind is str and not item.isascii() and _is_broken(item)) or (
            kind is int and not -_LARGEST < item < _LARGEST
        ):
            _refuse(key if depth else "", "a text that is no Unicode" if kind is str else _HUGE, where, error)
        elif kind is float and not math.isfinite(item) and not may_be_infinite:
            _refuse(key if depth else "", f"{item} is no finite number", where, error)


_HUGE = "a whole number of more than 300 digits"


def _refuse(key: object, what: str, where: str, error: type[InputError]) -> NoReturn:
    place = f", at {str(key)[:80]!r}" if isinstance(key, str) and key else ""
    raise error(f"{where}{place}: {what}")


def _is_broken(text: str) -> bool:
    """Whether it holds halves of surrogate pairs, which no encoding writes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
