"""Observed kernels → constants by vendor and family.

    ln(seconds / (factor · price + kernel_seconds · kernels))

is made small (Huber's loss): operators within a recording weigh by the root of their time, recordings by how
many different operations of the family they hold. First for all vendors together, drawn to the price itself;
then for each vendor, drawn to that: there are few recordings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.evidence.train.recorded_kernels.observe import ObservedKernels
from perfcast.traces.forecast.eager_kernels import (
    KERNEL_FAMILIES,
    EagerKernels,
    VendorKernels,
)
from perfcast.units import MICRO

#: Before any recording: the price and 1.5 µs a kernel, with errors of 0.4 that are worth two recordings.
USUAL = EagerKernels(1.0, 1.5 * MICRO, 0.4)
_USUAL_RECORDINGS = 2
#: How far all vendors may be from that, and each from all: in logarithms of the factor, and a kernel.
_OF_ALL, _OF_ONE = (0.7, 1.5 * MICRO), (0.35, 1.5 * MICRO)
#: Errors of a vendor of which there is no recording.
OTHER_DEVIATION = 0.6
#: Weight of a recording of very many different operations, how many are worth half of it, and where Huber's
#: loss turns.
_RECORDING_WEIGHT, _HALF_WEIGHT, _TURN = 8.0, 4, 0.5
_FACTORS = np.exp(np.linspace(math.log(0.5), math.log(8), 57))
_SECONDS = np.linspace(0, 6, 49) * MICRO


def fit_kernels(observed: Sequence[ObservedKernels]) -> Mapping[str, VendorKernels]:
    """Constants of each vendor that was recorded, and of any other."""
    vendors = sorted({one.vendor for one in observed})
    of_all = {
        family: _fit([one for one in observed if one.family == family], USUAL, _OF_ALL)
        for family in KERNEL_FAMILIES
    }
    found: dict[str, VendorKernels] = {}
    for vendor in vendors:
        mine = [one for one in observed if one.vendor == vendor]
        found[vendor] = {
            family: _fit([one for one in mine if one.family == family], of_all[family], _OF_ONE)
            for family in KERNEL_FAMILIES
        }
    other = {family: replace(one, deviation=OTHER_DEVIATION) for family, one in of_all.items()}
    return {**found, "other": other}


def _fit(
    observed: Sequence[ObservedKernels], drawn_to: EagerKernels, deviations: tuple[float, float]
) -> EagerKernels:
    """Constants of one family's kernels, drawn to others."""

    def loss(factor: float, seconds: float) -> float:
        prior = (math.log(factor / drawn_to.factor) / deviations[0]) ** 2
        prior += ((seconds - drawn_to.kernel_seconds) / deviations[1]) ** 2
        return prior + sum(_loss_of(one, factor, seconds) for one in observed)

    _, factor, seconds = min((loss(*pair), *pair) for pair in product(_FACTORS.tolist(), _SECONDS.tolist()))
    chosen = EagerKernels(factor, seconds, 0.0)
    squares = [_error_of_sum(one, chosen) ** 2 for one in observed]
    freedom = _USUAL_RECORDINGS + len(squares)
    deviation = math.sqrt((_USUAL_RECORDINGS * USUAL.deviation**2 + sum(squares)) / freedom)
    return EagerKernels(factor, seconds, deviation)


def _loss_of(one: ObservedKernels, factor: float, seconds: float) -> float:
    errors = np.log(one.seconds / (factor * one.prices + seconds * one.counts))
    weights: Floats = np.sqrt(one.seconds)
    size = np.abs(errors)
    loss = np.where(size <= _TURN, size**2, _TURN * (2 * size - _TURN))
    different = len(set(zip(one.prices.tolist(), one.counts.tolist(), strict=True)))
    weight = _RECORDING_WEIGHT * different / (different + _HALF_WEIGHT)
    return weight * float(weights @ loss / weights.sum())


def _error_of_sum(one: ObservedKernels, chosen: EagerKernels) -> float:
    stated = chosen.factor * one.prices + chosen.kernel_seconds * one.counts
    return math.log(float(one.seconds.sum()) / float(stated.sum()))


def format_kernels(fitted: Mapping[str, VendorKernels], observed: Sequence[ObservedKernels]) -> str:
    """The file's text."""
    recordings = sorted({one.recording for one in observed})
    lines = [
        "# Kernels that PyTorch launches one by one: factor of the price, seconds of each kernel beside it,",
        "# and the standard deviation of ln(recorded / stated) of a recording's kernels of a family.",
        "# 'perfcast train recorded-kernels --data DIR' writes this. A family of which a vendor has no",
        "# recording stands where it is drawn to. Fitted to these recordings (AMD TraceLens, MIT):",
        *(f"#   {name}" for name in recordings),
    ]
    for vendor, families in fitted.items():
        for family, one in families.items():
            lines += [
                "",
                f'[vendors.{vendor}."{family}"]',
                f"factor = {one.factor:.4g}",
                f"kernel_seconds = {one.kernel_seconds:.3g}",
                f"deviation = {one.deviation:.3g}",
            ]
    return "\n".join(lines) + "\n"
