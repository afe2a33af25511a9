"""How good a fit is, by what was left out of it: one rule for lines of kernels and curves of collectives.

The interval of a fit reaches up to the 95th percentile of a normal error with the mean absolute value that
was found on what was left out (1.645 · √(π / 2) = 2.06 times it), or further where single times lie.

==========  ==========================================================================================
refused     times fall with work, or the error on what was left out makes an interval wider than that
            of an operation that was never measured (``UNKNOWN_SPREAD``: 437 %): what it is of counts
            as not measured
doubtful    off by more than 25 % on average, or by more than 10 % with an R² below 0.5, or an
            interval beyond three times the estimate: used, and said to be doubtful
good        else. R² alone says nothing where times hardly differ
==========  ==========================================================================================
"""

from __future__ import annotations

from typing import Literal

from perfcast.cost.model import UNKNOWN_SPREAD

Quality = Literal["good", "doubtful", "refused"]
_DOUBTFUL_ERROR, _DOUBTFUL_SPREAD = 0.25, 3.0
_UNRELATED_ERROR, _UNRELATED_R_SQUARED = 0.1, 0.5
_NORMAL_95 = 2.06


def judge_fit(error: float, r_squared: float, spread: float) -> Quality:
    """The rule.

    Args:
        error: Mean absolute relative error on what was left out.
        r_squared: Of the logarithms of time.
        spread: Factor from an estimate to the upper end of its interval.
    """
    if spread_of_fit(error) > UNKNOWN_SPREAD:
        return "refused"
    is_unrelated = error > _UNRELATED_ERROR and r_squared < _UNRELATED_R_SQUARED
    return "doubtful" if error > _DOUBTFUL_ERROR or spread > _DOUBTFUL_SPREAD or is_unrelated else "good"


def spread_of_fit(error: float, largest_ratio: float = 1.0) -> float:
    """Factor from an estimate to the upper end of its interval, at least 1.

    Args:
        largest_ratio: 95th percentile of measured / fitted.
    """
    return max(largest_ratio, 1.0 + _NORMAL_95 * error)


def describe_fit(error: float, r_squared: float, spread: float) -> str:
    """'off by 31 % on what was left out of the fit, R² 0.87, times up to 1.6 of the estimate'."""
    return (
        f"off by {100 * error:.0f} % on what was left out of the fit, R² {r_squared:.2f}, "
        f"times up to {spread:.3g} of the estimate"
    )
