"""Measured kernels beside what was forecast of them before, and what the others make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.corrections.covariance import load_covariance
from perfcast.cost.learned.corrections.evidence import weigh_measurements
from perfcast.cost.learned.corrections.load import estimate_measured
from perfcast.cost.learned.corrections.measured import MeasuredKernels


@dataclass(frozen=True)
class Comparison:
    """One measured kernel.

    Attributes:
        before_seconds: Forecast without any measurement of the device.
        after_seconds: Forecast by all the other measurements, without this one.
    """

    name: str
    measured_seconds: float
    before_seconds: float
    after_seconds: float


def compare_kernels(
    measured: MeasuredKernels, device: Device, weights: Path | None = None
) -> tuple[Comparison, ...]:
    """Each kernel in the order of the file."""
    if not measured.kernels:
        return ()
    before, traits = estimate_measured(measured, device, weights)
    seconds = np.array([kernel.seconds for kernel in measured.kernels], dtype=np.float64)
    errors, covariance, count = np.log(seconds / before), load_covariance(), len(seconds)
    moves = np.zeros(count)
    for place in range(count if count > 1 else 0):
        others = np.flatnonzero(np.arange(count) != place)
        evidence = weigh_measurements(traits.take(others), errors[others], covariance)
        moves[place] = evidence.about(traits.take(np.array([place])))[0][0]
    after = before * np.exp(moves)
    names = [kernel.name for kernel in measured.kernels]
    return tuple(
        Comparison(*row) for row in zip(names, seconds.tolist(), before.tolist(), after.tolist(), strict=True)
    )


def mean_error(comparisons: Sequence[Comparison], *, after: bool) -> float:
    """Mean |forecast / measured - 1|."""
    forecast = [c.after_seconds if after else c.before_seconds for c in comparisons]
    measured: Floats = np.array([c.measured_seconds for c in comparisons])
    return float(np.abs(np.array(forecast) / measured - 1.0).mean())
