"""How many levels a cluster has: clusters of pairs in the plane of log latency and log seconds per byte.

Pairs that meet on one level have one latency and one bandwidth, up to noise that is even in the logarithms.
The levels are the components of a mixture of normal distributions with one common variance, which holds
what repeats of one pair differ by (known, if there are repeats) and what pairs of one level differ by. The
number of components is that of the least Bayesian information criterion (G. Schwarz, Estimating the
dimension of a model, 1978), with a wide, flat component for stray pairs.

What counts as two levels: at least a tenth apart in latency or in bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.measure.mesh_discovery.matrix import PairSamples

LEAST_RATIO = 1.1
MOST_LEVELS = 8
_STRAY_SHARE = 0.01
_ROUNDS = 25
_FIRST_ROUNDS = 4
_SEEDS = 8
_LEAST_DEVIATION = 0.005
_MOST_DEVIANCE = 40.0
_MOST_POINTS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """The levels of a cluster, inner (fastest) first.

    Attributes:
        centres: ``(L, 2)`` log seconds of latency and log seconds per byte.
        pair_variance: ``(2,)`` of the pairs of one level around its centre, without noise.
        repeat_variance: ``(2,)`` of one measurement around its pair.
        advantage: By how much the next best number of levels is less likely, as a natural logarithm.
        excess: How many times the spread within levels exceeds that of repeats, minus 1; NaN without repeats.
    """

    centres: Floats
    pair_variance: Floats
    repeat_variance: Floats
    advantage: float
    excess: float

    def __len__(self) -> int:
        return len(self.centres)

    def variance(self, counts: np.ndarray) -> Floats:
        """``(k, 2)``: of the mean of ``counts`` measurements of a pair around its level's centre."""
        return np.asarray(self.pair_variance + self.repeat_variance / np.maximum(counts, 1)[:, None])

    def log_likelihoods(self, costs: Floats, counts: np.ndarray) -> Floats:
        """``(k, L)``: of each pair on each level, up to a constant; bounded: no pair decides alone."""
        deviance = (costs[:, None, :] - self.centres) ** 2 / self.variance(counts)[:, None, :]
        return np.asarray(-0.5 * np.minimum(deviance, _MOST_DEVIANCE).sum(axis=2))

    def odds_below(self, level: int, costs: Floats, counts: np.ndarray) -> Floats:
        """``(k,)``: log of how much likelier a level below ``level`` is than that or a higher one."""
        likelihood = self.log_likelihoods(costs, counts)
        return np.asarray(likelihood[:, :level].max(axis=1) - likelihood[:, level:].max(axis=1))

    def separation(self) -> float:
        """Least distance of two neighbouring centres, in standard deviations of one measurement."""
        if len(self) == 1:
            return math.inf
        scale = np.sqrt(self.variance(np.ones(1, dtype=np.int64)))
        distances = np.sqrt((((self.centres[1:] - self.centres[:-1]) / scale) ** 2).sum(axis=1))
        return float(distances.min())


def fit_levels(samples: PairSamples) -> Levels:
    """The levels that answered pairs show; ``samples`` should hold some pairs of each.

    Raises:
        ValueError: No pair answered.
    """
    samples = _thinned(samples.answered())
    if not len(samples.pairs):
        raise ValueError("no pair answered")
    repeat = samples.repeat_variance()
    known = np.nan_to_num(repeat, nan=0.0)
    noise = known / samples.counts[:, None]
    fits = [_Mixture.single(samples.costs, noise)]
    while len(fits) < MOST_LEVELS and len(samples.pairs) > 2 * len(fits):
        fits.append(fits[-1].grown(samples.costs, noise))
        if len(fits) - int(np.argmin([fit.criterion for fit in fits])) > 2:
            break
    criteria = np.array([fit.criterion for fit in fits])
    best = fits[int(criteria.argmin())]
    others = np.delete(criteria, criteria.argmin())
    advantage = float(others.min() - criteria.min()) / 2 if len(others) else math.inf
    # Without repeats nothing tells noise from differences of pairs: all of it may be noise.
    if np.isnan(repeat).any():
        return Levels(_distinct(best.centres), np.zeros(2), best.variance, advantage, math.nan)
    mean_noise = known / samples.counts.mean()
    excess = float((best.variance / np.maximum(mean_noise, _LEAST_DEVIATION**2)).max())
    return Levels(_distinct(best.centres), best.variance, known, advantage, excess)


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    """Centres, shares and the variance in addition to known noise; log likelihoods without centres' order."""

    centres: Floats
    shares: Floats
    variance: Floats
    criterion: float
    likelihood: Floats

    @classmethod
    def single(cls, costs: Floats, noise: Floats) -> _Mixture:
        return _expectation_maximization(costs, noise, np.median(costs, axis=0, keepdims=True))

    def grown(self, costs: Floats, noise: Floats) -> _Mixture:
        """The best mixture with one centre more: tried at the worst explained pairs and within components."""
        worst = np.argsort(self.likelihood, kind="stable")
        tries = [*worst[:: max(1, len(worst) // (4 * _SEEDS))][: _SEEDS // 2]]
        owner = ((costs[:, None] - self.centres) ** 2).sum(axis=2).argmin(axis=1)
        for component in range(len(self.centres)):
            members = np.flatnonzero(owner == component)
            for axis in range(2):
                if len(members):
                    ordered = members[np.argsort(costs[members, axis], kind="stable")]
                    tries += [ordered[len(ordered) // 10], ordered[len(ordered) * 9 // 10]]
        starts = [np.vstack((self.centres, costs[at])) for at in sorted(set(tries))]
        looks = [_expectation_maximization(costs, noise, start, _FIRST_ROUNDS) for start in starts]
        best = min(looks, key=lambda fit: fit.criterion)
        return _expectation_maximization(costs, noise, best.centres)


def _expectation_maximization(
    costs: Floats, noise: Floats, centres: Floats, rounds: int = _ROUNDS
) -> _Mixture:
    """Centres, shares and a common variance of greatest likelihood, from these centres on."""
    spread = np.ptp(costs, axis=0) + 0.1
    stray = math.log(_STRAY_SHARE / float(spread.prod()))
    k = len(centres)
    shares = np.full(k, 1 / k)
    # Axes in the order (2, k, N), in which numpy sums fastest.
    points, known = costs.T[:, None, :], noise.T
    distances = (points - centres.T[:, :, None]) ** 2
    nearest = np.take_along_axis(distances, distances.sum(axis=0).argmin(axis=0)[None, None], axis=1)[:, 0]
    variance = np.maximum((nearest - known).mean(axis=1), _LEAST_DEVIATION**2)
    likelihood = np.zeros(len(costs))
    for _ in range(rounds):
        total = variance[:, None] + known
        distances = (points - centres.T[:, :, None]) ** 2
        scaled = distances / total[:, None]
        scale = np.log(total[0]) + np.log(total[1]) + 2 * math.log(2 * math.pi)
        terms = np.log(shares * (1 - _STRAY_SHARE) + 1e-12)[:, None] - 0.5 * (scaled[0] + scaled[1] + scale)
        highest = np.maximum(terms.max(axis=0), stray)
        likelihood = highest + np.log(np.exp(terms - highest).sum(axis=0) + np.exp(stray - highest))
        belongs = np.exp(terms - likelihood)
        weights = belongs.sum(axis=1) + 1e-9
        shares = weights / weights.sum()
        centres = (belongs @ costs + 1e-9 * centres) / weights[:, None]
        squares = np.einsum("kn,akn->a", belongs, distances)
        expected = known @ belongs.sum(axis=0)
        variance = np.maximum((squares - expected) / weights.sum(), _LEAST_DEVIATION**2)
    parameters = 2 * k + k - 1 + 2
    criterion = float(-2 * likelihood.sum() + parameters * math.log(len(costs)))
    return _Mixture(centres, shares, variance, criterion, likelihood)


def _distinct(centres: Floats) -> Floats:
    """Inner first, those less than a tenth apart joined."""
    ordered = centres[np.argsort(centres.sum(axis=1), kind="stable")]
    kept = [ordered[0]]
    for centre in ordered[1:]:
        if np.abs(centre - kept[-1]).max() >= math.log(LEAST_RATIO):
            kept.append(centre)
    return np.array(kept)


def _thinned(samples: PairSamples) -> PairSamples:
    """Every so many pairs of a large sample, which is enough for the levels."""
    step = -(-len(samples.pairs) // _MOST_POINTS)
    return samples.select(np.arange(0, len(samples.pairs), step)) if step > 1 else samples
