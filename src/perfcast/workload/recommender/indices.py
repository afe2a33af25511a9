"""Indices of embedding lookups, made up: uniform, Zipf, or with a given reuse histogram.

Popular rows lie all over a table, and every batch has the same ones: the row of popularity rank r is
``row_of_rank(r)``, one to one and the same for all batches.
"""

from __future__ import annotations

import math

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.embedding.lookup import REUSE_LIMITS, ReuseHistogram
from perfcast.errors import InputError

#: Rows with so few lookups in a batch may have them by chance.
_CHANCE = 2
#: Relative; bags that differ by less are equally long.
_LEAST_DEVIATION = 1e-6


def draw_uniform(num_rows: int, num_lookups: int, rng: np.random.Generator) -> Integers:
    """Every row as likely as any other, shape [lookups]."""
    return rng.integers(0, num_rows, num_lookups)


def draw_zipf(num_rows: int, num_lookups: int, exponent: float, rng: np.random.Generator) -> Integers:
    """The i-th most popular row with a probability proportional to i^-exponent, shape [lookups].

    Drawn by inversion of the distribution's integral, row by row for the first thousand: the rest is smooth.
    """
    head = min(num_rows, 1000)
    masses = np.arange(1, head + 1, dtype=np.float64) ** -exponent
    tail = _integral(head + 0.5, num_rows + 0.5, exponent)
    total = masses.sum() + tail
    drawn = rng.random(num_lookups) * total
    ranks = np.searchsorted(np.cumsum(masses), drawn, side="right").astype(np.int64)
    beyond = ranks >= head
    rest = drawn[beyond] - masses.sum()
    ranks[beyond] = np.clip(np.round(_inverse(head + 0.5, rest, exponent)) - 1, head, num_rows - 1)
    return row_of_rank(ranks, num_rows)


def draw_from_reuse(reuse: ReuseHistogram, num_rows: int, rng: np.random.Generator) -> Integers:
    """Indices in random order whose histogram is ``reuse``, shape [lookups].

    Rows with more than two lookups are the table's most popular ones; the others are any of the rest. Counts
    that are not whole, such as expected ones, are rounded so that their sums stay.

    Raises:
        InputError: More different rows than the table has.
    """
    counts = [
        _counts_of_bin(rows, lookups, k)
        for k, (rows, lookups) in enumerate(
            zip(_rounded(reuse.rows), _rounded_lookups(reuse), strict=True),
        )
    ]
    every = np.concatenate(counts)[::-1]
    if len(every) > num_rows:
        raise InputError(f"a reuse histogram of {len(every)} different rows for a table of {num_rows}")
    popular = int((every > _CHANCE).sum())
    others = popular + rng.choice(num_rows - popular, len(every) - popular, replace=False)
    ranks = np.concatenate([np.arange(popular), others]).astype(np.int64)
    indices = np.repeat(row_of_rank(ranks, num_rows), every)
    rng.shuffle(indices)
    return indices


def draw_bag_lengths(
    num_lookups: int, batch_size: int, deviation: float, rng: np.random.Generator
) -> Integers:
    """Lookups of each bag, shape [batch], that sum to ``num_lookups``.

    Args:
        deviation: Standard deviation over bags; 0: as equal as whole numbers can be. Drawn from a gamma
            distribution, rounded so that the sum stays.
    """
    mean = num_lookups / batch_size
    wanted = np.full(batch_size, mean)
    if deviation > _LEAST_DEVIATION * mean > 0:
        shape = (mean / deviation) ** 2
        drawn = rng.gamma(shape, mean / shape, batch_size)
        if drawn.sum() > _LEAST_DEVIATION * mean:
            wanted = drawn * (num_lookups / drawn.sum())
    edges = np.round(np.concatenate(([0.0], np.cumsum(wanted)))).astype(np.int64)
    edges[-1] = num_lookups
    return np.diff(edges)


def row_of_rank(ranks: Integers, num_rows: int) -> Integers:
    """Rows of popularity ranks 0 … rows - 1: a step of about the golden section, coprime to the rows."""
    step = max(round(num_rows * (math.sqrt(5) - 1) / 2), 1)
    while math.gcd(step, num_rows) != 1:
        step += 1
    return (ranks * step + num_rows // 3) % num_rows


def _integral(low: float, high: float, exponent: float) -> float:
    """∫ x^-s dx from low to high."""
    if high <= low:
        return 0.0
    if exponent == 1:
        return math.log(high / low)
    return float((high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent))


def _inverse(low: float, areas: Floats, exponent: float) -> Floats:
    """The x up to which the integral from ``low`` has each of the areas."""
    if exponent == 1:
        return low * np.exp(areas)
    power = 1 - exponent
    found: Floats = (areas * power + low**power) ** (1 / power)
    return found


def _rounded(values: tuple[float, ...]) -> list[int]:
    """Whole numbers whose running sums stay within a half of those of the values."""
    edges = np.round(np.concatenate(([0.0], np.cumsum(values)))).astype(np.int64)
    return [int(step) for step in np.diff(edges)]


def _rounded_lookups(reuse: ReuseHistogram) -> list[int]:
    """Lookups of each bin, whole, within what its rounded rows can take, as near to the total as may be."""
    rows = _rounded(reuse.rows)
    wanted = _rounded(reuse.lookups)
    low = [count * (REUSE_LIMITS[k - 1] + 1 if k else 1) for k, count in enumerate(rows)]
    high = [count * limit for count, limit in zip(rows, REUSE_LIMITS, strict=False)]
    high.append(max(wanted[-1] + sum(wanted), low[-1]) if rows[-1] else 0)
    held = [min(max(w, a), b) for w, a, b in zip(wanted, low, high, strict=True)]
    missing = round(reuse.num_lookups) - sum(held)
    for k in reversed(range(len(held))):
        moved = min(max(missing, low[k] - held[k]), high[k] - held[k])
        held[k] += moved
        missing -= moved
    return held


def _counts_of_bin(rows: int, lookups: int, k: int) -> Integers:
    """How often each of a bin's rows is looked up, shape [rows]: spread evenly over what the bin allows."""
    if not rows:
        return np.zeros(0, dtype=np.int64)
    low = REUSE_LIMITS[k - 1] + 1 if k else 1
    high = REUSE_LIMITS[k] if k < len(REUSE_LIMITS) else lookups
    counts = np.full(rows, lookups // rows, dtype=np.int64)
    counts[: lookups - int(counts.sum())] += 1
    room = min(lookups // rows - low, high - lookups // rows - 1)
    if room > 0:
        swing = np.round(np.linspace(0, room, rows // 2)).astype(np.int64)
        counts[: rows // 2] += swing
        counts[rows - rows // 2 :] -= swing
    return counts
