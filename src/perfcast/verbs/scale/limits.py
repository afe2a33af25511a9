"""How far a training run on H100s can scale, beside the published curve."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from perfcast.errors import InputError, UnknownNameError
from perfcast.published.data_movement.curve import (
    ScalingLimits,
    draw_curve,
    find_limits,
    read_published_curve,
)
from perfcast.published.data_movement.layer import H100_SXM5
from perfcast.published.data_movement.limits import ScaledRun, ScalingAssumptions
from perfcast.ranges import FINITE, excerpt, read_number

#: Powers of ten of the training flops that are shown where no published curve is given.
_POWERS = range(24, 33)
#: Runs that a line is drawn through.
_STEPS_A_DECADE = 3


@dataclass(frozen=True, kw_only=True)
class LimitsFound:
    """Limits of the data-movement model.

    Attributes:
        rows: Runs, with the published utilization of one so large, where it is known.
    """

    limits: ScalingLimits
    assumptions: ScalingAssumptions
    rows: tuple[tuple[ScaledRun, float | None], ...]

    @cached_property
    def curve(self) -> tuple[ScaledRun, ...]:
        """Runs close enough together for a line through them."""
        steps = range(_STEPS_A_DECADE * (_POWERS[-1] - _POWERS[0]) + 1)
        fine = [10.0 ** (_POWERS[0] + step / _STEPS_A_DECADE) for step in steps]
        return tuple(draw_curve(fine, H100_SXM5, self.assumptions))


def limits_of(assumed: tuple[str, ...], data: str | None) -> LimitsFound:
    """Limits, beside the published curve where a folder holds it.

    Raises:
        InputError: An assumption that is none.
    """
    assumptions = parse_assumptions(assumed)
    published = read_published_curve(data) if data else []
    flops = [value for value, _ in published] or [10.0**power for power in _POWERS]
    theirs: list[float | None] = [value for _, value in published] or [None] * len(flops)
    return LimitsFound(
        limits=find_limits(H100_SXM5, assumptions),
        assumptions=assumptions,
        rows=tuple(zip(draw_curve(flops, H100_SXM5, assumptions), theirs, strict=True)),
    )


def parse_assumptions(texts: tuple[str, ...]) -> ScalingAssumptions:
    """``('batch_exponent=0.33',)`` → the assumptions; what is not named keeps its default.

    Raises:
        InputError: Not NAME=NUMBER, or a number that no run can have.
        UnknownNameError: No free variable of that name.
    """
    names = [field.name for field in fields(ScalingAssumptions)]
    values: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in names:
            raise UnknownNameError("free variable", name, names, f"Known: {', '.join(names)}.")
        try:
            values[name] = read_number(f"--assume {name}:", number, FINITE)
        except InputError:
            raise InputError(f"--assume: {excerpt(text)} is not NAME=NUMBER") from None
    return ScalingAssumptions(**values)
