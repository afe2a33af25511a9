"""What measurements on a device say of the device's other kernels: a Gaussian process over ``covariance``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.cost.learned.corrections.covariance import Covariance
from perfcast.cost.learned.corrections.traits import Traits

#: A single measurement is believed to this many of the forecast's standard deviations.
_MOST_DEVIATIONS = 6.0
_ROUNDS = 4
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Evidence:
    """Measured kernels of one device.

    Attributes:
        measured: Their traits, m kernels.
        weights: (K + noise)⁻¹ e, shape [m].
        inverse: (K + noise)⁻¹, shape [m, m].
    """

    covariance: Covariance
    measured: Traits
    weights: Floats
    inverse: Floats

    def __len__(self) -> int:
        return len(self.weights)

    def about(self, kernels: Traits) -> tuple[Floats, Floats]:
        """How far to move log seconds of n kernels, and what remains of their intervals; shape [n] each."""
        cross = self.covariance.between(kernels, self.measured)
        told = np.einsum("ij,jk,ik->i", cross, self.inverse, cross)
        shared, alone = self.covariance.shared(kernels), self.covariance.alone(kernels)
        remains = np.clip(shared - told, 0.0, None) + alone
        narrowed = (remains / (shared + alone)) ** (0.5 * self.covariance.narrowing)
        return self.covariance.trust * (cross @ self.weights), np.minimum(narrowed, 1.0)


def weigh_measurements(measured: Traits, errors: Floats, covariance: Covariance) -> Evidence:
    """Evidence from m measured kernels.

    A measurement that the others contradict was disturbed, or is of a kernel that no rule holds: its
    noise grows until it is as far off as ``covariance.disturbed`` deviations.

    Args:
        errors: log(measured / forecast), shape [m].
    """
    errors = np.clip(errors, -_MOST_DEVIATIONS * measured.spread, _MOST_DEVIATIONS * measured.spread)
    plain = covariance.between(measured, measured) + np.diag(covariance.alone(measured) + _TINY)
    extra = np.zeros(len(errors))
    for _ in range(_ROUNDS):
        inverse = np.linalg.inv(plain + np.diag(extra))
        weights, own = inverse @ errors, 1.0 / np.diag(inverse)
        away = np.abs(weights) * np.sqrt(own)
        excess = np.where(away > covariance.disturbed, (away / covariance.disturbed) ** 2 - 1.0, 0.0)
        extra = excess * np.minimum(own, 4.0 * np.diag(plain))
    return Evidence(covariance, measured, np.asarray(weights), np.asarray(inverse))
