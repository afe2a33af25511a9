"""Texts of options as values: lists of names and of counts, times, amounts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from perfcast.errors import InputError, PlanError, QuestionError
from perfcast.ranges import ANY_NUMBER, FINITE, SECONDS, Range, excerpt, read_number, read_whole
from perfcast.units import DAY, GIGA, HOUR, KILO, MEGA, MICRO, MILLI, MINUTE, TERA

#: Counts of a list; the field that holds them has its own range.
WHOLE = Range(1, ANY_NUMBER.largest)
_EXCERPT = 60


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
    if not re.fullmatch(r"[0-9, _]+", text) or not all(part.strip(" 0_") for part in text.split(",")):
        raise PlanError(f"{option} {_cut(text)}: whole numbers above 0, such as 256 or 256,512")
    return tuple(read_whole(option, part, WHOLE, PlanError) for part in text.split(","))


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
        seconds = read_number(option, text.removesuffix(unit), ANY_NUMBER) * units[unit]
        SECONDS.check(option, seconds)
    except InputError:
        raise PlanError(
            f"{option} {_cut(text)}: a time above 0, such as 30d, 12h, 45min, 2s or 50ms, of at most 1e12 s"
        ) from None
    return seconds


#: Letters behind a number; B is a billion, as counts of parameters and tokens are written.
_MULTIPLES = {"k": KILO, "K": KILO, "M": MEGA, "G": GIGA, "B": GIGA, "T": TERA}


def read_amount(option: str, text: str) -> float:
    """``'15T'``, ``'300B'`` or ``'1e12'`` → a finite number; whether it can be is judged where it is used.

    Raises:
        PlanError: No number.
    """
    said = text.strip()
    number, multiple = (said[:-1], _MULTIPLES[said[-1]]) if said[-1:] in _MULTIPLES else (said, 1.0)
    try:
        return read_number(option, number, FINITE) * multiple
    except InputError:
        raise PlanError(f"{option} {excerpt(text)}: no number, such as 15T, 300B or 1e12") from None


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


def _cut(text: str) -> str:
    """As it was written, where that is short."""
    return text if len(text) <= _EXCERPT else excerpt(text)
