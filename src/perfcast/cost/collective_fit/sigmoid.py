"""A bandwidth that rises as a sigmoid of the logarithm of the size, between two knees.

Below the first knee a message costs a constant time; beyond the second every byte more moves at one rate;
between them, with x = log₂ size,

    log₁₀ bandwidth = height / (1 + exp(−steepness (x − centre))) + base.

The form is that of a trace-driven forecaster of recommendation models (Lin et al., "Building a Performance
Model for Deep Learning Recommendation Model Training on GPUs"), which prices the outer parts by a measured
overhead and the peak bandwidth, so that its curve jumps at both knees. Here the constant below is the
curve's own value at the first knee, and the line above starts at its value at the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.errors import CalibrationError

_OCTAVES_PER_DECADE = math.log2(10)
_NEAR_PEAK = 0.95
_FLAT = 0.10
_USUAL_LOG_ERROR = 0.05
_MOST_EVALUATIONS = 60
_LEAST_POINTS_BETWEEN = 4
_LATE = 2


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """Attributes are the symbols of the formula above.

    Attributes:
        height, steepness, centre, base: Of log₁₀ (bytes per second) over log₂ (bytes); the time never
            falls where height · steepness · log₂ 10 / 4 is at most 1, which the fit keeps to.
        first_knee_bytes, second_knee_bytes: Ends of the sigmoid.
        beyond_bytes_per_second: Rate of the bytes beyond the second knee.
    """

    height: float
    steepness: float
    centre: float
    base: float
    first_knee_bytes: float
    second_knee_bytes: float
    beyond_bytes_per_second: float

    def seconds(self, sizes_bytes: Floats) -> Floats:
        """Seconds of messages of any shape of array."""
        between = np.clip(sizes_bytes, self.first_knee_bytes, self.second_knee_bytes)
        slope = self.steepness / 2 * (np.log2(between) - self.centre)
        rise = self.height / 2 * (1 + np.tanh(slope))  # the logistic function, safe far from its centre
        beyond = np.maximum(sizes_bytes - self.second_knee_bytes, 0.0)
        return np.asarray(between / 10 ** (rise + self.base) + beyond / self.beyond_bytes_per_second)


def fit_sigmoid(sizes_bytes: Floats, seconds: Floats) -> Sigmoid:
    """Find the knees roughly, then all parameters of least error of log time, outliers weighed down.

    Args:
        sizes_bytes: Rising, all different.
        seconds: One for each, above zero.

    Raises:
        CalibrationError: Fewer than four sizes lie between the knees.
    """
    from scipy.optimize import least_squares

    first, second = find_knees(sizes_bytes, seconds)
    if second + 1 - first < _LEAST_POINTS_BETWEEN:
        raise CalibrationError(
            f"only {second + 1 - first} sizes lie between the knees of a sigmoid; measure more sizes"
        )
    octaves, decades = np.log2(sizes_bytes), np.log10(sizes_bytes / seconds)
    low, high = float(np.min(decades)), float(np.max(decades))
    middle = (octaves[first] + octaves[second]) / 2
    #: Parameters of ``_from_parameters``: least, start, most, scale.
    ranges = np.array(
        [
            (1e-3, max(high - low, 0.1), 12, 1.0),
            (1e-3, 0.5, 1, 0.3),
            (octaves[0] - 8, float(np.median(octaves[first : second + 1])), octaves[-1] + 8, 2.0),
            (low - 6, low, high + 6, 1.0),
            (high - 2, high, high + 3, 0.3),
            (octaves[0], octaves[first], middle, 1.0),
            (middle, octaves[max(first, second - _LATE)], octaves[-1] + 1e-3, 1.0),
        ]
    )
    least, start, most, scale = ranges.T
    inward = 1e-3 * np.minimum(scale, most - least)
    logarithms = np.log(seconds)
    result = least_squares(
        lambda p: np.log(_from_parameters(p).seconds(sizes_bytes)) - logarithms,
        np.clip(start, least + inward, most - inward),
        bounds=(least, most),
        loss="soft_l1",
        f_scale=_USUAL_LOG_ERROR,
        x_scale=scale,
        max_nfev=_MOST_EVALUATIONS,
    )
    return _from_parameters(result.x)


def find_knees(sizes_bytes: Floats, seconds: Floats) -> tuple[int, int]:
    """Indices of the two knees in a rising sweep.

    The second is two points after the last one that reaches less than 95 % of the peak bandwidth. The
    first is the point before the first rise of the time by more than 10 % per doubling of the size (the
    slope between a point's neighbours).
    """
    rates = sizes_bytes / seconds
    slow = np.flatnonzero(rates < _NEAR_PEAK * np.max(rates))
    second = min(len(rates) - 1, int(slow[-1]) + 2) if slow.size else len(rates) - 1
    doublings = np.log2(sizes_bytes[2:] / sizes_bytes[:-2])
    rise = (seconds[2:] - seconds[:-2]) / (doublings * seconds[1:-1])
    steep = np.flatnonzero(rise > _FLAT)
    return (int(steep[0]) if steep.size else 0), second


def _from_parameters(parameters: Floats) -> Sigmoid:
    """From height, share of the steepness at which time would fall, centre, base, and three logarithms.

    They are log₁₀ of the rate beyond, and log₂ of the two knees.
    """
    height, share, centre, base, beyond, first, second = map(float, parameters)
    steepness = 4 * share / (height * _OCTAVES_PER_DECADE)
    return Sigmoid(height, steepness, centre, base, 2**first, 2**second, 10**beyond)
