"""The interval of a step from those of its operations.

Errors of operations are neither independent nor one: what is wrong about a device or a library is wrong
for all operations of a kind, what is wrong about a shape is not. With half-widths h of the operations'
intervals (of all runs of one operation together: they err alike) and ρ the common part of the variance,

    half-width² = Σ over kinds (Σ √ρ·h)² + Σ (1 − ρ)·h² + (step error · seconds)²

for the upper and the lower side each. ρ is higher where a device was never measured, since its scalars are
shared by all its kernels, and low where it was. Where nothing of a vendor was ever measured, all kernels are
of one kind and ρ is highest: its libraries may fall short in all of them. The step error stands for what no
operation's price holds: the allocator, gaps between kernels, clocks that fall under a mixed load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.cost.model import Estimates

#: Common part of the variance by provenance; 1 where only a bound is known, since a bound errs one way.
#: That of devices never measured was 0.8 until their steps were looked at: with devices left out 99 % of 69
#: fp32 steps lay inside, 2.0 times wide, no farther off than on known ones (``validate neusight``).
_COMMON = {"measured": 0.1, "interpolated": 0.3, "extrapolated": 0.5}
_FOREIGN = 0.8
_BOUND = 1.0
_ALL = "all kernels"
#: 90 % half-width, relative, of what a step adds. Set so that nine in ten of 61 measured steps (fp32, seven
#: devices whose kernels had been learned, no step ever) lie in their interval: `perfcast validate neusight`.
STEP_ERROR = 0.15
#: The same where a compiler chose which kernels there are. Set so that about nine in ten of 36 compiled steps
#: (models of timm on RTX 4090, none of them fitted to) lie in their interval: `perfcast validate vision`.
COMPILED_STEP_ERROR = 0.25
#: Of a training above its forecast: gradients that are summed, and programs' own work. Of 19 training steps
#: of NVIDIA's example programs nine in ten then lie inside: `perfcast validate vision`.
TRAINING_STEP_ERROR_ABOVE = 0.25


@dataclass(frozen=True, slots=True)
class StepError:
    """What a step adds to the interval of its prices: 90 % half-widths over the step's seconds."""

    below: float
    above: float

    @classmethod
    def alike(cls, width: float) -> StepError:
        """As wide below as above."""
        return cls(width, width)


def step_error_of_device(*, is_training: bool, is_compiled: bool) -> StepError:
    """Of a step of one device that was captured."""
    if is_compiled:
        return StepError.alike(COMPILED_STEP_ERROR)
    return StepError(STEP_ERROR, TRAINING_STEP_ERROR_ABOVE if is_training else STEP_ERROR)


def common_part(provenance: str, errs_as_one: bool = False) -> float:
    """ρ: of the variance of a price's error, what it has in common with others of its kind."""
    common = _COMMON.get(provenance, _BOUND)
    return max(common, _FOREIGN) if errs_as_one else common


def join_intervals(
    estimates: Estimates,
    counts: Integers | Floats,
    groups: Sequence[str],
    step_error: StepError | float = STEP_ERROR,
) -> tuple[float, float]:
    """Low and high of a step in which operation i runs ``counts[i]`` times and is of kind ``groups[i]``."""
    error = step_error if isinstance(step_error, StepError) else StepError.alike(step_error)
    seconds = float(estimates.seconds @ counts)
    if not np.isfinite(seconds):
        return seconds, seconds
    names = [_ALL if estimates.errs_as_one and tag in _COMMON else name
             for name, tag in zip(groups, estimates.provenance, strict=True)]  # fmt: skip
    _, kind = np.unique(np.array(names, dtype=str), return_inverse=True)
    common = np.array(
        [common_part(tag, estimates.errs_as_one) for tag in estimates.provenance], dtype=np.float64
    )
    is_model = any(tag in _COMMON for tag in estimates.provenance)
    rest = seconds if is_model else 0.0
    below = _half_width(
        (estimates.seconds - estimates.seconds_low) * counts, common, kind, error.below * rest
    )
    above = _half_width(
        (estimates.seconds_high - estimates.seconds) * counts, common, kind, error.above * rest
    )
    lowest = float(estimates.seconds_low @ counts)
    return max(
        seconds - below, min(lowest, seconds * (1 - error.below)) if is_model else lowest
    ), seconds + above


def _half_width(widths: Floats, common: Floats, kind: Integers, rest: float) -> float:
    if not len(widths):
        return rest
    together = np.bincount(kind, weights=np.sqrt(common) * widths)
    if (common == _BOUND).all():
        return float(together.sum())
    return float(np.sqrt((together**2).sum() + ((1 - common) * widths**2).sum() + rest**2))
