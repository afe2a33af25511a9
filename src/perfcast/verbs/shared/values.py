"""Texts of options as values: lists of names and of counts, times, amounts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcast.errors import PlanError, QuestionError
from perfcast.units import DAY, GIGA, HOUR, KILO, MEGA, MICRO, MILLI, MINUTE, TERA


def split_names(option: str, texts: Sequence[str]) -> tuple[str, ...]:
    """``('a:8,b:8', 'c')`` → three names, each once.

    Raises:
        QuestionError: An empty one.
    """
    names = [name.strip() for text in texts for name in text.split(",")]
    if not all(names):
        raise QuestionError(f"{option} {','.join(texts)}: a name is empty")
    return tuple(dict.fromkeys(names))


def parse_counts(option: str, text: str | None) -> tuple[int, ...]:
    """``'8,64'`` → numbers; nothing gives none.

    Raises:
        PlanError: Something else than whole numbers above 0.
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise PlanError(f"{option} {text}: whole numbers above 0, such as 256 or 256,512")
    return tuple(int(part) for part in parts)


def parse_time(option: str, said: str | float | None) -> float | None:
    """``'30d'``, ``'12h'``, ``'500ms'`` or seconds → seconds.

    Raises:
        PlanError: Not a finite time above 0.
    """
    if said is None:
        return None
    text = str(said)
    units = {"ms": MILLI, "us": MICRO, "µs": MICRO, "min": MINUTE, "d": DAY, "h": HOUR, "s": 1.0, "": 1.0}
    unit = next(name for name in units if text.endswith(name))
    try:
        seconds = float(text.removesuffix(unit)) * units[unit]
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise PlanError(f"{option} {text}: a time above 0, such as 30d, 12h, 45min, 2s or 50ms")
    return seconds


#: Letters behind a number; B is a billion, as counts of parameters and tokens are written.
_MULTIPLES = {"k": KILO, "K": KILO, "M": MEGA, "G": GIGA, "B": GIGA, "T": TERA}


def read_amount(option: str, text: str) -> float:
    """``'15T'``, ``'300B'`` or ``'1e12'`` → a number; whether it can be is judged where it is used.

    Raises:
        PlanError: No number.
    """
    try:
        return float(text[:-1]) * _MULTIPLES[text[-1]] if text[-1:] in _MULTIPLES else float(text)
    except ValueError:
        raise PlanError(f"{option} {text}: no number, such as 15T, 300B or 1e12") from None


def check_fraction(option: str, value: float | None) -> float | None:
    """A part of a whole; nothing stays nothing.

    Raises:
        PlanError: Names the option.
    """
    if value is not None and not 0 < value <= 1:
        raise PlanError(f"{option} {value:g}: must be above 0 and at most 1")
    return value


def check_amount(option: str, value: float | None) -> float | None:
    """A finite number above 0; nothing stays nothing.

    Raises:
        PlanError: Names the option.
    """
    if value is not None and not 0 < value < math.inf:
        raise PlanError(f"{option} {value:g}: a number above 0, such as 1e12")
    return value
