"""The simplest curve: seconds = latency + bytes / bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.errors import CalibrationError

_MOST_ITERATIONS = 50
_USUAL_RELATIVE_ERROR = 0.05


@dataclass(frozen=True, slots=True)
class Affine:
    """A latency that every message pays, and a rate at which its bytes move.

    Attributes:
        latency_seconds: Not below zero.
        bytes_per_second: Of the message, not of the bus; infinite where size does not matter.
    """

    latency_seconds: float
    bytes_per_second: float

    def seconds(self, sizes_bytes: Floats) -> Floats:
        """Seconds of messages of any shape of array."""
        return self.latency_seconds + sizes_bytes / self.bytes_per_second


def fit_affine(sizes_bytes: Floats, seconds: Floats) -> Affine:
    """The line of least relative error, with outliers weighed down.

    Minimises Σ wᵢ ((latency + sizeᵢ / rate − tᵢ) / tᵢ)²: relative, since sizes span six decades; wᵢ falls
    as one over the relative error once that passes 5 % (Huber's weights, reweighted until they settle).
    A latency below zero, which a sweep of large messages alone can give, is set to zero.

    Raises:
        CalibrationError: Larger messages took less time, so that the slope is negative.
    """
    unit = float(np.max(sizes_bytes))
    weights = np.ones_like(seconds)
    latency, slope = 0.0, 0.0
    for _ in range(_MOST_ITERATIONS):
        before = (latency, slope)
        latency, slope = _weighted_line(sizes_bytes / unit, seconds, weights)
        error = np.abs((latency + slope * sizes_bytes / unit) / seconds - 1)
        weights = _USUAL_RELATIVE_ERROR / np.maximum(error, _USUAL_RELATIVE_ERROR)
        if np.allclose(before, (latency, slope), rtol=1e-9, atol=0.0):
            break
    if slope < 0:
        raise CalibrationError(
            f"larger messages took less time: a line through {len(sizes_bytes)} points from "
            f"{np.min(sizes_bytes):.0f} to {unit:.0f} bytes has a negative slope; measure larger messages, "
            f"or more often"
        )
    return Affine(latency, unit / slope if slope > 0 else float("inf"))


def _weighted_line(sizes: Floats, seconds: Floats, weights: Floats) -> tuple[float, float]:
    """Intercept (not below zero) and slope."""
    root = np.sqrt(weights)
    columns = np.stack([root / seconds, root * sizes / seconds], axis=1)
    intercept, slope = np.linalg.lstsq(columns, root, rcond=None)[0]
    if intercept < 0:
        return 0.0, float(columns[:, 1] @ root / (columns[:, 1] @ columns[:, 1]))
    return float(intercept), float(slope)
