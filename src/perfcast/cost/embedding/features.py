"""What the learned cost sees of a lookup: work that adds up, and features that say how fast it goes.

Work (base terms), with B bags of d elements, n lookups, U different rows of l cache lines, of which some
were not touched in the batch before, and m lookups that a core's own cache does not answer:

    1, B, B d, n, n d, m l, U, U l, new U, new U l

A row with c lookups was touched in the batch before with the probability 1 - exp(-c), one with a single
lookup with 1 - exp(-2 N₂ / N₁), N_c rows having c lookups (Good, Biometrika 1953: the expected rate of rows
seen once).

The features are logarithms of sizes, shares of lookups that miss caches of three sizes, and the reuse
histogram of Lin et al. (IEEE TPDS 2024): shares of the touched rows by reuse.
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.embedding.columns import EmbeddingColumns
from perfcast.core.embedding.lookup import REUSE_LIMITS
from perfcast.cost.embedding.cache import hit_shares
from perfcast.units import KIB, MIB

_LINE_BYTES = 64
#: A core's first and second cache, and a share of the last one.
_CACHE_BYTES = (32 * KIB, 512 * KIB, 8 * MIB)
#: Bins of the histogram that are told apart; rows with more lookups count as the last.
_NUM_BINS = 12
#: Logarithms start here.
_LEAST = 1e-3


def base_terms(columns: EmbeddingColumns) -> Floats:
    """Work of each lookup, shape [n, 10]."""
    bags, lookups, dim = columns.batch_size, columns.num_lookups, columns.dim
    lines = np.ceil(columns.row_bytes / _LINE_BYTES)
    misses = lookups * (1 - _hits(columns, _CACHE_BYTES[1]))
    unique, new = columns.unique_rows, new_rows(columns)
    terms = (np.ones(len(columns)), bags, bags * dim, lookups, lookups * dim, misses * lines,
             unique, unique * lines, new, new * lines)  # fmt: skip
    return np.stack(terms, axis=1)


def speed_features(columns: EmbeddingColumns) -> Floats:
    """What the correction of the base rests on, shape [n, 13 + 12]."""
    lookups = np.maximum(columns.num_lookups, _LEAST)
    touched_bytes = columns.unique_rows * columns.row_bytes
    new = new_rows(columns)
    sizes = (
        columns.batch_size,
        columns.num_rows,
        columns.pooling,
        columns.dim,
        touched_bytes,
        columns.num_rows * columns.row_bytes,
    )
    logs = [np.log(np.maximum(size, _LEAST)) for size in sizes]
    shares = [columns.unique_rows / lookups, new / lookups]
    shares += [1 - _hits(columns, size) for size in _CACHE_BYTES]
    footprints = [np.log1p(rows * columns.row_bytes / MIB) for rows in (new, columns.unique_rows)]
    fractions = columns.touched_rows / np.maximum(columns.unique_rows, _LEAST)[:, None]
    histogram = np.concatenate(
        [fractions[:, : _NUM_BINS - 1], fractions[:, _NUM_BINS - 1 :].sum(axis=1, keepdims=True)], axis=1
    )
    return np.concatenate([np.stack(logs + shares + footprints, axis=1), histogram], axis=1)


def new_rows(columns: EmbeddingColumns) -> Floats:
    """Touched rows that the batch before is not expected to have touched, shape [n]."""
    rows = columns.touched_rows
    present = rows > 0
    rates = np.where(present, columns.touched_lookups / np.where(present, rows, 1.0), 0.0)
    rates[:, 0] = np.where(present[:, 0], 2 * rows[:, 1] / np.where(present[:, 0], rows[:, 0], 1.0), 0.0)
    fresh: Floats = (rows * np.exp(-np.minimum(rates, REUSE_LIMITS[-1]))).sum(axis=1)
    return fresh


def _hits(columns: EmbeddingColumns, cache_bytes: float) -> Floats:
    return hit_shares(
        columns.touched_rows, columns.touched_lookups, np.floor(cache_bytes / columns.row_bytes)
    )
