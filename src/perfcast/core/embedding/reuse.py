"""Reuse histograms: counted from indices, expected from a distribution, carried to another batch size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.embedding.lookup import NUM_REUSE_BINS, REUSE_LIMITS, ReuseHistogram
from perfcast.errors import InputError
from perfcast.units import TERA

#: Groups of rows of like popularity that stand for a Zipf distribution.
_ZIPF_GROUPS = 512
#: Batches whose lookups differ by less, relative, are the same.
_SAME = 1e-6
#: A binomial distribution is summed count by count up to this mean, which leaves nothing beyond the last.
_LARGE_MEAN = 60.0
_MOST_COUNTED = 160
#: Published shares have three decimals.
_ROUNDING = 5e-4
#: Mean lookups of a row in the last bin, at most, where only the lookups are known.
_LARGEST_MEAN = 16.0 * REUSE_LIMITS[-1]


def reuse_of_counts(counts: Integers, weights: Floats | None = None) -> ReuseHistogram:
    """The histogram of rows with ``counts`` lookups each, shape [rows]; rows without a lookup are left out.

    Args:
        weights: Rows that each entry stands for.
    """
    hit = counts > 0
    counts = counts[hit]
    weights = np.ones(len(counts)) if weights is None else weights[hit]
    bins = np.searchsorted(np.array(REUSE_LIMITS), counts, side="left")
    rows = np.bincount(bins, weights=weights, minlength=NUM_REUSE_BINS)
    lookups = np.bincount(bins, weights=weights * counts, minlength=NUM_REUSE_BINS)
    return ReuseHistogram(tuple(rows.tolist()), tuple(lookups.tolist()))


def count_reuse(indices: Integers) -> ReuseHistogram:
    """The histogram of one batch's indices into one table, shape [lookups]."""
    return reuse_of_counts(np.unique(indices, return_counts=True)[1])


@cache
def uniform_reuse(num_rows: int, num_lookups: int) -> ReuseHistogram:
    """Expected histogram where all rows are equally likely: a row's count is Binomial(n, 1 / rows)."""
    return expected_reuse(np.array([1 / num_rows]), np.array([float(num_rows)]), num_lookups)


@cache
def zipf_reuse(num_rows: int, num_lookups: int, exponent: float) -> ReuseHistogram:
    """Expected histogram where the i-th most popular row has a probability proportional to i^-exponent.

    Rows are taken in groups that grow with their rank, each at its mean probability.

    Raises:
        InputError: An exponent below zero.
    """
    if not exponent >= 0:
        raise InputError(f"a Zipf exponent of {exponent}; it must be at least 0")
    edges = np.unique(np.round(np.geomspace(1, num_rows + 1, _ZIPF_GROUPS)).astype(np.int64))
    sizes = np.diff(edges).astype(np.float64)
    masses = _power_sums(edges, exponent)
    return expected_reuse(masses / masses.sum() / sizes, sizes, num_lookups)


def _power_sums(edges: Integers, exponent: float) -> Floats:
    """Σ i^-s over edges[g] ≤ i < edges[g + 1], by the midpoint rule: exact to 1e-3 in groups of one."""
    low, high = edges[:-1].astype(np.float64), edges[1:].astype(np.float64)
    if exponent == 1:
        spread: Floats = np.log((high - 0.5) / (low - 0.5))
    else:
        power = 1 - exponent
        spread = ((high - 0.5) ** power - (low - 0.5) ** power) / power
    return np.where(high - low == 1, low**-exponent, spread)


def expected_reuse(probabilities: Floats, multiplicities: Floats, num_lookups: int) -> ReuseHistogram:
    """Expected histogram of n independent lookups.

    A row of probability p has c lookups with the probability of Binomial(n, p); of its lookups, n · p in the
    mean, the part on counts in (a, b] is P(a - 1 < Binomial(n - 1, p) ≤ b - 1).

    Args:
        probabilities: Of one row of each group, shape [groups].
        multiplicities: Rows of each group, shape [groups].
    """
    rows = multiplicities @ _in_bins(np.full(len(probabilities), num_lookups), probabilities, 0)
    means = multiplicities * probabilities * num_lookups
    lookups = means @ _in_bins(np.full(len(probabilities), num_lookups - 1), probabilities, 1)
    return _histogram(rows, lookups)


def rescaled_reuse(reuse: ReuseHistogram, num_lookups: float, num_rows: int) -> ReuseHistogram:
    """The histogram that the same traffic has in a batch of another number of lookups.

    A smaller batch is a part of the larger one drawn at random: a row with c lookups keeps Binomial(c, f) of
    them, f = n / n₀. In a larger one rows never seen before appear; the number of different rows goes on to
    grow as fast as it last did, U ∝ n^β with β = rows seen once / U (Good, Biometrika 1953: the next lookup
    is new with the probability rows seen once / n₀), at most to ``num_rows``; they count once each, the other
    lookups go to the known rows in proportion, as independent draws.

    Raises:
        InputError: An empty histogram says nothing about a batch that is not empty.
    """
    known = reuse.num_lookups
    if num_lookups <= 0:
        return ReuseHistogram((0.0,) * NUM_REUSE_BINS, (0.0,) * NUM_REUSE_BINS)
    if known == 0:
        raise InputError("a reuse histogram without lookups says nothing about a batch with some")
    if abs(num_lookups / known - 1) < _SAME:
        return reuse
    counts, rows = _atoms(reuse)
    if num_lookups <= known:
        return _thinned(counts, rows, num_lookups / known)
    touched = reuse.num_rows
    grown = touched * (num_lookups / known) ** (reuse.rows[0] / touched)
    new = max(min(grown, float(num_rows), touched + num_lookups - known) - touched, 0.0)
    growth = max((num_lookups - new) / known - 1, 0.0)
    return _grown(np.append(counts, 1.0), np.append(counts * growth, 0.0), np.append(rows, new))


def reuse_of_fractions(
    row_fractions: Sequence[float], lookup_fractions: Sequence[float], num_rows: float, num_lookups: float
) -> ReuseHistogram:
    """A histogram from published shares of touched rows and of lookups, at most 17 of each.

    What the shares lack to 1 is in the last bin. Shares that are rounded may contradict each other: lookups
    are kept, and rows moved into what their bin allows.

    Raises:
        InputError: Shares below 0 or of more than 1 in sum.
    """
    shares = [_complete(row_fractions), _complete(lookup_fractions)]
    return _histogram(shares[0] * num_rows, shares[1] * num_lookups)


def _complete(fractions: Sequence[float]) -> Floats:
    shares = np.array(fractions, dtype=np.float64)
    if len(shares) > NUM_REUSE_BINS or not ((shares >= 0) & (shares <= 1)).all():
        raise InputError(f"shares of a reuse histogram are at most 17 numbers of 0 to 1: {list(fractions)}")
    if shares.sum() > 1 + _ROUNDING * len(shares):
        raise InputError(f"shares of a reuse histogram sum to {shares.sum():g}, more than 1")
    whole = np.zeros(NUM_REUSE_BINS)
    whole[: len(shares)] = shares
    if len(shares) < NUM_REUSE_BINS:
        whole[-1] = max(1 - shares.sum(), 0.0)
    return whole / whole.sum() if whole.sum() > 0 else whole


def part_of_reuse(reuse: ReuseHistogram, share: float) -> ReuseHistogram:
    """The histogram of a shard that holds a share of the rows of every popularity."""
    return ReuseHistogram(
        tuple(share * rows for rows in reuse.rows), tuple(share * lookups for lookups in reuse.lookups)
    )


def joined_reuse(parts: Sequence[ReuseHistogram]) -> ReuseHistogram:
    """The histogram of tables together."""
    rows = np.sum([part.rows for part in parts], axis=0)
    lookups = np.sum([part.lookups for part in parts], axis=0)
    return ReuseHistogram(tuple(rows.tolist()), tuple(lookups.tolist()))


def _atoms(reuse: ReuseHistogram) -> tuple[Floats, Floats]:
    """Counts and rows that give every bin's rows and lookups: its least and its largest count."""
    counts: list[float] = []
    rows: list[float] = []
    for k, (held, lookups) in enumerate(zip(reuse.rows, reuse.lookups, strict=True)):
        if not held:
            continue
        low = REUSE_LIMITS[k - 1] + 1 if k else 1
        mean = lookups / held
        high = REUSE_LIMITS[k] if k < len(REUSE_LIMITS) else math.ceil(mean)
        upper = min(max((mean - low) / (high - low), 0.0), 1.0) if high > low else 0.0
        counts += [float(low), float(high)]
        rows += [held * (1 - upper), held * upper]
    return np.array(counts), np.array(rows)


def _thinned(counts: Floats, rows: Floats, kept: float) -> ReuseHistogram:
    trials = counts.astype(np.int64)
    shares = np.full(len(trials), kept)
    lookups = (rows * counts * kept) @ _in_bins(trials - 1, shares, 1)
    return _histogram(rows @ _in_bins(trials, shares, 0), lookups)


def _grown(counts: Floats, added: Floats, rows: Floats) -> ReuseHistogram:
    """Rows with c lookups get X ~ Poisson(m) more; E[c + X; X ≤ b] = c P(X ≤ b) + m P(X ≤ b - 1).

    Poisson is Binomial(n, m / n) for a large n.
    """
    room = np.array(REUSE_LIMITS, dtype=np.float64)[None, :] - counts[:, None]

    def at_most(limit: Floats) -> Floats:
        below = _at_most(limit, np.full(len(rows), TERA), added / TERA)
        return np.concatenate([np.zeros((len(rows), 1)), below, np.ones((len(rows), 1))], axis=1)

    share, less = np.diff(at_most(room), axis=1), np.diff(at_most(room - 1), axis=1)
    return _histogram(rows @ share, (rows * counts) @ share + (rows * added) @ less)


def _in_bins(trials: Integers, probabilities: Floats, shift: int) -> Floats:
    """P(Binomial lies in a bin whose limits are ``shift`` lower), shape [groups, 17]."""
    limits = np.concatenate(([0], np.array(REUSE_LIMITS))) - shift
    points = np.broadcast_to(limits[None, :].astype(np.float64), (len(trials), len(limits)))
    tried = np.maximum(trials, 0).astype(np.float64)
    below = _at_most(points, tried, np.minimum(probabilities, 1.0))
    return np.diff(np.concatenate([below, np.ones((len(trials), 1))], axis=1), axis=1)


def _at_most(points: Floats, trials: Floats, probabilities: Floats) -> Floats:
    """P(Binomial ≤ point), shape [groups, points]: summed up to a mean of 60, beyond by the normal law."""
    mean = trials * probabilities
    deviation = np.sqrt(mean * (1 - probabilities))
    is_small = (mean <= _LARGE_MEAN) & (probabilities < 1)
    ratio = np.where(is_small, probabilities / np.where(is_small, 1 - probabilities, 1.0), 0.0)
    share = np.where(is_small, np.exp(trials * np.log1p(-np.where(is_small, probabilities, 0.0))), 0.0)
    shares = [share]
    for count in range(_MOST_COUNTED):
        share = share * np.maximum(trials - count, 0.0) / (count + 1) * ratio
        shares.append(share)
    sums = np.cumsum(np.stack(shares, axis=1), axis=1)
    index = np.clip(points, 0, _MOST_COUNTED).astype(np.int64)
    summed = np.where(points >= _MOST_COUNTED, 1.0, np.take_along_axis(sums, index, axis=1))
    steps = (points + 0.5 - mean[:, None]) / np.maximum(deviation, 1e-9)[:, None]
    normal = (1 + np.vectorize(math.erf, otypes=[np.float64])(steps / math.sqrt(2))) / 2
    found = np.where(is_small[:, None], np.minimum(summed, 1.0), normal)
    return np.where(points < 0, 0.0, np.where(points >= trials[:, None], 1.0, found))


def _histogram(rows: Floats, lookups: Floats) -> ReuseHistogram:
    """A valid histogram from expected values: what rounding moves over a bin's limits is moved back."""
    low = np.concatenate(([1.0], np.array(REUSE_LIMITS, dtype=np.float64)))
    high = np.append(np.array(REUSE_LIMITS, dtype=np.float64), np.inf)
    rows = np.where(lookups > 0, rows, 0.0)
    rows = np.clip(rows, np.where(np.isinf(high), lookups / _LARGEST_MEAN, lookups / high), lookups / low)
    return ReuseHistogram(tuple(rows.tolist()), tuple(lookups.tolist()))
