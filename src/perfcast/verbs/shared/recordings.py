"""Texts that questions about recordings share: ranges of steps."""

from __future__ import annotations

import re

from perfcast.errors import QuestionError

_RANGE = re.compile(r"(\d{1,9})(?::(\d{1,9}))?")


def parse_steps(option: str, text: str | None) -> range | None:
    """Numbers of steps, ``A:B`` with both included, or ``A`` alone; None for all.

    Raises:
        QuestionError: Not such a range, or one that ends before it begins.
    """
    if text is None:
        return None
    match = _RANGE.fullmatch(text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        said = f"{option}: " if option else ""
        raise QuestionError(f"{said}'{text}' is no range of steps: write A:B, such as 3:5, or one number")
    return range(int(match[1]), int(match[2] or match[1]) + 1)
