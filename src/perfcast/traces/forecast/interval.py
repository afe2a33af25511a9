"""How sure a step forecast from a recording is: what prices leave open, joined with how far steps differ.

A recording shows a few steps of a program that runs many. With x_i the recorded steps in the long run and
those timed beside them, each over the mean of its kind, n of them, and what recordings of several steps show
of others (``DEVIATION``, on a processor ``PROCESSOR_DEVIATION``, with the weight of ``PRIOR_STEPS``), another
step lies within t · s · √(1 + 1/n) of their mean, 90 % of the time:

    s² = (PRIOR_STEPS · DEVIATION² + Σ (x_i / mean - 1)²) / (PRIOR_STEPS + n - 1)

with Student's t of PRIOR_STEPS + n - 1 degrees of freedom. That, a change of the program that is an idealised
one, and what prices and another machine's host leave open err apart from each other: half-widths, in
logarithms, join as the root of their summed squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

#: Relative standard deviation of the steps of a recording, in the middle of those that hold several (1.2, 1.8
#: and 3.1 %; `perfcast validate coverage --subject "recorded steps"` says them), and for how many steps'
#: worth of evidence it is taken.
DEVIATION, PRIOR_STEPS = 0.018, 3
#: The same of programs that a processor runs alone, which shares its time with all else: with it, timed steps
#: of the first half of 27 recorded programs lie 88 of 100 times within what their recorded ones say.
PROCESSOR_DEVIATION = 0.06
#: Of a change that needs no prices, in logarithms: it may do a third more or less.
CHANGE_SHARE = 1 / 3
_NORMAL = 1.6449  # 95th percentile


def steps_half_width(steps: Sequence[float], usual: float = DEVIATION) -> float:
    """Of one further step, relative; 90 %.

    Args:
        usual: Relative standard deviation of steps elsewhere.

    >>> steps_half_width([1.0]) > steps_half_width([1.0, 1.0, 1.0])
    True
    """
    count = max(len(steps), 1)
    mean = sum(steps) / count if steps else 0.0
    squares = sum((step / mean - 1) ** 2 for step in steps) if mean else 0.0
    freedom = PRIOR_STEPS + count - 1
    deviation = math.sqrt((PRIOR_STEPS * usual**2 + squares) / freedom)
    return _student(freedom) * deviation * math.sqrt(1 + 1 / count)


def relative_steps(kinds: Iterable[Sequence[float]]) -> list[float]:
    """Steps of several kinds, each over the mean of its kind.

    >>> relative_steps([[1.0, 3.0], [], [5.0]])
    [0.5, 1.5, 1.0]
    """
    return [step * len(steps) / sum(steps) for steps in kinds if sum(steps) > 0 for step in steps]


def _student(freedom: int) -> float:
    """95th percentile of Student's t, to 2 % (Cornish and Fisher's expansion; Abramowitz, Stegun 26.7.5)."""
    z = _NORMAL
    first = (z**3 + z) / (4 * freedom)
    return z + first + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def join_ends(
    middle: float, low: float, high: float, own_half_width: float, change: float
) -> tuple[float, float]:
    """Ends of a step's interval.

    Args:
        low, high: The step with all prices at their ends.
        own_half_width: Of one further step as recorded, relative.
        change: ln of the step with a change of the program over the step without it; 0 without one.
    """
    if middle <= 0:
        return low, high
    own = math.log1p(own_half_width)
    changed = CHANGE_SHARE * abs(change)
    below = math.hypot(own, changed, math.log(middle / low) if 0 < low < middle else 0.0)
    above = math.hypot(own, changed, math.log(high / middle) if high > middle else 0.0)
    return middle * math.exp(-below), middle * math.exp(above)
