"""Which curve: the one with the least error at sizes that it was not fitted on, nor off where it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perfcast.core.arrays import Floats
from perfcast.cost.collective_fit.affine import fit_affine
from perfcast.cost.collective_fit.curve import Curve, FittedLine, Form
from perfcast.cost.collective_fit.interpolate import fit_interpolated
from perfcast.cost.collective_fit.sigmoid import fit_sigmoid
from perfcast.errors import CalibrationError

Fit = Callable[[Floats, Floats], Form]

LEAST_SIZES = 4
#: Fitted on all sizes, knots lie twice as close as in the test, and the error between them shrinks. Of what
#: the test says this share is left, over sweeps of NCCL at twice the sizes.
_LEFT_BETWEEN_CLOSER_KNOTS = 0.8
_EXACT = 1e-6


def fit_curve(sizes_bytes: ArrayLike, seconds: ArrayLike) -> Curve:
    """The best form through measurements of one collective.

    Repeats of a size count by their median. Every form is fitted on every other size and tested on the
    sizes between, both ways round; the one with the least mean absolute relative error, fitted on all
    sizes, is the curve. The error of forms that follow the points counts for less, since they gain most
    from sizes that lie closer. A form counts for no better than it fits all sizes: two halves of a sweep
    with a jump may each be followed by a curve that cannot follow the whole. The error that the curve says
    of itself is the larger of the two as well.

    Args:
        sizes_bytes: Message sizes, in any order, repeats allowed.
        seconds: One time for each.

    Raises:
        CalibrationError: Fewer than four different sizes, sizes or times that are not finite and above
            zero, times that fall as messages grow, or a curve that says nothing of sizes left out of it.
    """
    sizes, times = _medians(sizes_bytes, seconds)
    line = fit_affine(sizes, times)  # refuses times that fall
    tried = [_try(fit, weight, sizes, times) for fit, weight in _FORMS]
    least = min(each.counted for each in tried)
    chosen = next(each for each in tried if each.counted <= least + _EXACT)
    fitted_line = FittedLine(
        line.latency_seconds, line.bytes_per_second, *_quality(line.seconds(sizes), times)
    )
    assert chosen.form is not None, "the line can always be fitted where it was"
    curve = _describe(chosen.form, sizes, times, chosen.error, fitted_line)
    if curve.quality == "refused":
        raise CalibrationError(curve.described_quality)
    return curve


def _knots(per_octave: int | None) -> Fit:
    return lambda sizes, times: fit_interpolated(sizes, times, per_octave)


#: Simplest first, and how much of its held-out error counts.
_FORMS: Sequence[tuple[Fit, float]] = (
    (fit_affine, 1.0),
    (fit_sigmoid, 1.0),
    *((_knots(per_octave), _LEFT_BETWEEN_CLOSER_KNOTS) for per_octave in (1, 4, None)),
)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A form fitted on all sizes, None where it cannot be.

    Attributes:
        error: At sizes left out, or at its own where that is larger.
        counted: By which it is chosen.
    """

    form: Form | None
    error: float
    counted: float


def _try(fit: Fit, weight: float, sizes: Floats, times: Floats) -> _Tried:
    held_out = _held_out_error(fit, sizes, times)
    try:
        form = fit(sizes, times)
    except CalibrationError:
        return _Tried(None, math.inf, math.inf)
    error = max(held_out, _quality(form.seconds(sizes), times)[1])
    return _Tried(form, error, error * weight)


def _held_out_error(fit: Fit, sizes: Floats, times: Floats) -> float:
    """Mean absolute relative error of each half of the sizes by a fit of the other half."""
    errors = []
    for start in (0, 1):
        kept, left = slice(start, None, 2), slice(1 - start, None, 2)
        try:
            form = fit(sizes[kept], times[kept])
        except CalibrationError:
            return float("inf")
        errors.append(np.abs(form.seconds(sizes[left]) / times[left] - 1))
    return float(np.mean(np.concatenate(errors)))


def _medians(sizes_bytes: ArrayLike, seconds: ArrayLike) -> tuple[Floats, Floats]:
    """Different sizes, rising, and the median time of each."""
    sizes, times = (np.asarray(values, dtype=np.float64).ravel() for values in (sizes_bytes, seconds))
    if len(sizes) != len(times):
        raise CalibrationError(f"{len(sizes)} sizes and {len(times)} times do not belong together")
    for name, values in (("size", sizes), ("time", times)):
        bad = values[~(np.isfinite(values) & (values > 0))]
        if bad.size:
            raise CalibrationError(f"a {name} of {bad[0]:g} cannot be fitted; it must be above zero")
    different, index = np.unique(sizes, return_inverse=True)
    if len(different) < LEAST_SIZES:
        raise CalibrationError(
            f"{len(different)} different message sizes are too few to fit a curve; measure at least "
            f"{LEAST_SIZES}"
        )
    order = np.lexsort((times, index))
    groups = np.split(times[order], np.flatnonzero(np.diff(index[order])) + 1)
    return different, np.array([np.median(group) for group in groups])


def _describe(form: Form, sizes: Floats, times: Floats, held_out: float, line: FittedLine) -> Curve:
    r_squared, mape = _quality(form.seconds(sizes), times)
    return Curve(
        form=form,
        count=len(sizes),
        least_bytes=float(sizes[0]),
        most_bytes=float(sizes[-1]),
        r_squared=r_squared,
        mape=mape,
        held_out_mape=held_out,
        line=line,
    )


def _quality(predicted: Floats, times: Floats) -> tuple[float, float]:
    """R² of the logarithms of time, and the mean absolute relative error."""
    logarithms = np.log(times)
    total = float(np.sum((logarithms - np.mean(logarithms)) ** 2))
    left = float(np.sum((np.log(predicted) - logarithms) ** 2))
    return (
        1 - left / total if total > 0 else float(left == 0),
        float(np.mean(np.abs(predicted / times - 1))),
    )
