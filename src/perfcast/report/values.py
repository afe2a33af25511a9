"""Values with their units, and how they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from perfcast.units import format_bytes, format_count, format_duration, format_seconds

#: '' is text or a plain number. ``s`` is short, ``duration`` may be days. ``share`` is a fraction that is
#: written in percent; ``+`` marks differences. ``count`` has a decimal prefix, ``number`` all its digits.
Unit = Literal[
    "",
    "s",
    "+s",
    "duration",
    "B",
    "+B",
    "B/s",
    "FLOP",
    "FLOP/s",
    "share",
    "+share",
    "count",
    "number",
    "×",
    "tokens/s",
    "samples/s",
    "requests/s",
    "Wh",
    "J",
    "$",
    "g",
]
Value = str | int | float | None

#: Units whose values have a decimal prefix: one letter before a symbol, apart from a word.
SYMBOLS = ("B/s", "FLOP", "FLOP/s", "Wh", "J")
WORDS = ("tokens/s", "samples/s", "requests/s")


def format_value(value: Value, unit: Unit, missing: str = "–") -> str:
    """A value as it is read: ``format_value(0.0123, "s")`` is ``'12.3 ms'``."""
    if value is None:
        return missing
    if isinstance(value, str):
        return value
    if unit in SYMBOLS:
        return format_count(value, unit) if value else "0"
    if unit in WORDS:
        return f"{format_count(value)} {unit}"
    if unit in ("+s", "+B", "+share"):
        return _signed(value, unit)
    return _PLAIN[unit](value)


def _signed(value: float, unit: Unit) -> str:
    sign = "−" if value < 0 else "+"
    if unit == "+share":
        return f"{sign}{100 * abs(value):.1f} %"
    return sign + (format_seconds(abs(value)) if unit == "+s" else format_bytes(abs(value)))


_PLAIN: dict[str, Callable[[float], str]] = {
    "": str,
    "s": format_seconds,
    "duration": format_duration,
    "B": format_bytes,
    "share": lambda fraction: f"{100 * fraction:.1f} %",
    "count": lambda count: format_count(count) if count else "0",
    "number": lambda number: f"{number:,}",
    "×": lambda factor: f"× {factor:.3g}",
    "$": lambda dollars: f"${dollars:.3g}",
    "g": lambda number: f"{number:.3g}",
}


def percent(fraction: float) -> str:
    """A fraction in percent."""
    return format_value(fraction, "share")
