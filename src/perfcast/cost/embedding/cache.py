"""Which lookups of a batch a cache answers.

A cache of X rows that drops what was not used for longest keeps a row for about t lookups, where t solves

    Σ over touched rows of (1 - exp(-c t / n)) = X

with c lookups of a row among the batch's n in random order (Che, Tung, Wang, IEEE JSAC 2002). A row's first
lookup in the batch misses; each of the c - 1 others hits with the probability 1 - exp(-c t / n). Where all
touched rows fit, t is without end and only first lookups miss.
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats

_HALVINGS = 60
#: Times the batch: longer than any row waits for its next lookup.
_FOR_EVER = 1e6


def hit_shares(touched_rows: Floats, touched_lookups: Floats, cached_rows: Floats) -> Floats:
    """Share of the lookups that a cache of ``cached_rows`` rows answers, shape [n]; 0 where there are none.

    Args:
        touched_rows, touched_lookups: By reuse, shape [n, 17].
        cached_rows: Shape [n].
    """
    lookups = touched_lookups.sum(axis=1)
    safe = np.maximum(lookups, 1.0)
    counts = np.where(touched_rows > 0, touched_lookups / np.where(touched_rows > 0, touched_rows, 1.0), 0.0)
    horizon = _kept_lookups(touched_rows, counts, cached_rows)
    kept = -np.expm1(-counts * horizon[:, None])
    hits = (touched_rows * np.maximum(counts - 1, 0.0) * kept).sum(axis=1)
    shares: Floats = np.where(lookups > 0, hits / safe, 0.0)
    return shares


def _kept_lookups(rows: Floats, counts: Floats, cached_rows: Floats) -> Floats:
    """t / n for each cache by bisection in the logarithm, shape [n]; for ever where all touched rows fit."""
    low, high = np.full(len(rows), -60.0), np.full(len(rows), 60.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        held = (rows * -np.expm1(-counts * np.exp(middle)[:, None])).sum(axis=1)
        too_long = held > cached_rows
        high, low = np.where(too_long, middle, high), np.where(too_long, low, middle)
    fits = rows.sum(axis=1) <= cached_rows
    horizon: Floats = np.where(fits, _FOR_EVER, np.exp(np.where(fits, 0.0, low)))
    return np.where(cached_rows <= 0, 0.0, horizon)
