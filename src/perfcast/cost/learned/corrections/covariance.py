"""How much the forecast error of one kernel tells about that of another, on a device measured little.

With e = log(measured / forecast), d the leanings towards trained architectures, d̄ their mean, u the regimes,
σ the spread that the forecast states, and x the sizes:

    cov(e, e') = d̄·d̄' (a₁ + a₂[same operation]) + d·d' (a₃[same family] + a₄[same operation])
               + σσ' u·u' (b₁ + b₂[family] + b₃[operation] + b₄[… format] + b₅[… format, program])
               + σσ' exp(-|x - x'| / ℓ) (c₁[operation] + c₂[… format, program])
    var(e)     = the same with itself + c₃ σ²

A sum of products of such functions, hence positive. The first line is what devices that were measured differ
by; the second, how a device may be slower overall in one regime, at ever finer levels; the third, what
neighbouring sizes share; the last, what no other kernel tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.cost.learned.corrections.traits import Traits
from perfcast.figures import parse_toml

_CONSTANTS = Path(__file__).parent.parent.parent / "weights" / "corrections.toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Covariance:
    """The constants; fitted on devices whose dies were left out of the training, see the file.

    Attributes:
        mean_leaning, mean_leaning_operation: a₁, a₂.
        leaning_family, leaning_operation: a₃, a₄.
        device, family, operation, operation_format, segment: b₁ to b₅.
        nearby_operation, nearby_segment, noise: c₁ to c₃.
        doublings: ℓ.
        disturbed: A measurement farther than this many standard deviations from what the others say is
            trusted less, by the square of the excess.
        trust: How much of the posterior mean is taken.
        narrowing: Power of the ratio of posterior to prior deviation by which an interval narrows.
    """

    mean_leaning: float
    mean_leaning_operation: float
    leaning_family: float
    leaning_operation: float
    device: float
    family: float
    operation: float
    operation_format: float
    segment: float
    nearby_operation: float
    nearby_segment: float
    noise: float
    doublings: float
    disturbed: float
    trust: float
    narrowing: float

    def between(self, these: Traits, those: Traits) -> Floats:
        """Covariance of the errors of n and m kernels but for the noise, shape [n, m]."""
        family, operation = (
            _same(these, those, "family"),
            _same(these, those, "operation") & _same(these, those, "family"),
        )
        in_format = operation & _same(these, those, "dtype")
        segment = in_format & _same(these, those, "framework")
        mean = np.outer(these.mean_leaning, those.mean_leaning)
        leaning = these.leanings @ those.on(these.architectures).leanings.T
        scale = np.outer(these.spread, those.spread)
        regimes = scale * (these.regimes @ those.regimes.T)
        apart = np.linalg.norm(these.sizes[:, None, :] - those.sizes[None, :, :], axis=2)
        nearby = scale * np.exp(-apart / self.doublings)
        levels = self.device + self.family * family + self.operation * operation
        levels = levels + self.operation_format * in_format + self.segment * segment
        return np.asarray(
            mean * (self.mean_leaning + self.mean_leaning_operation * operation)
            + leaning * (self.leaning_family * family + self.leaning_operation * operation)
            + regimes * levels
            + nearby * (self.nearby_operation * operation + self.nearby_segment * segment),
            dtype=np.float64,
        )

    def shared(self, kernels: Traits) -> Floats:
        """Variance of each kernel's error that others may tell of, shape [n]."""
        squares = (kernels.leanings**2).sum(axis=1)
        levels = self.device + self.family + self.operation + self.operation_format + self.segment
        nearby = self.nearby_operation + self.nearby_segment
        return np.asarray(
            kernels.mean_leaning**2 * (self.mean_leaning + self.mean_leaning_operation)
            + squares * (self.leaning_family + self.leaning_operation)
            + kernels.spread**2 * (levels + nearby),
            dtype=np.float64,
        )

    def alone(self, kernels: Traits) -> Floats:
        """Variance of each kernel's error that no other kernel tells of, shape [n]."""
        return np.asarray(self.noise * kernels.spread**2, dtype=np.float64)


def _same(these: Traits, those: Traits, name: str) -> Flags:
    return np.asarray(getattr(these, name)[:, None] == getattr(those, name)[None, :], dtype=bool)


@cache
def load_covariance() -> Covariance:
    """The shipped constants."""
    content = parse_toml(_CONSTANTS)
    return Covariance(**{name: float(value) for name, value in content["covariance"].items()})
