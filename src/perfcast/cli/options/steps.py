"""Ranges of steps, as every verb on recordings takes them."""

from __future__ import annotations

import click

from perfcast.errors import QuestionError
from perfcast.verbs.shared.recordings import parse_steps


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
        try:
            found = parse_steps("", value)
        except QuestionError as error:
            self.fail(str(error), param, ctx)
        assert found is not None
        return found[0], found[-1]


STEP_RANGE = StepRange()
