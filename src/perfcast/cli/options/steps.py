"""Ranges of steps, as every verb on recordings takes them."""

from __future__ import annotations

import re

import click


class StepRange(click.ParamType[tuple[int, int]]):
    """``A:B``, both included, or ``A`` alone: the first and the last step."""

    name = "A:B"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """The pair of numbers.

        Raises:
            BadParameter: Not such a range, or one that ends before it begins.
        """
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", value)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            self.fail(f"'{value}' is no range of steps: write A:B, such as 3:5, or one number", param, ctx)
        return int(match[1]), int(match[2] or match[1])


STEP_RANGE = StepRange()
