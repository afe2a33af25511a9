"""Texts that questions about recordings share: sizes and ranges of steps."""

from __future__ import annotations

import re

from perfcast.errors import QuestionError
from perfcast.units import GIB, KIB, MIB, TIB

_UNITS = {"": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB}


def parse_size(option: str, text: str) -> int:
    """A number of bytes, with a unit: 500MiB, 8GiB, 8G.

    Raises:
        QuestionError: It is none.
    """
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]*)", text.strip())
    unit = match[2].lower() if match else ""
    unit = unit + "ib" if unit in ("k", "m", "g", "t") else unit
    if match is None or unit not in _UNITS or float(match[1]) <= 0:
        raise QuestionError(f"{option}: '{text}' is no size; such as 500MiB or 8GiB")
    return int(float(match[1]) * _UNITS[unit])


def parse_steps(option: str, text: str | None) -> range | None:
    """Numbers of steps, ``A:B`` with both included, or ``A`` alone; None for all.

    Raises:
        QuestionError: Not such a range, or one that ends before it begins.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise QuestionError(f"{option}: '{text}' is no range of steps: write A:B, such as 3:5, or one number")
    return range(int(match[1]), int(match[2] or match[1]) + 1)
