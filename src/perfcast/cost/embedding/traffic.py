"""Bytes that embedding lookups move, counted in sectors of 32 bytes as a GPU's caches do.

Forward, with B bags, n lookups, rows of r bytes and s(x) = x rounded up to whole sectors:

    of each bag     s(indices of the bag) + 32 (offsets) + 64 (its table's address and sizes) + s(pooled row)
    of each lookup  s(r)

(Lin et al., "Towards Universal Performance Modeling for Machine Learning Training on Multi-GPU Platforms",
IEEE TPDS 2024). A cache answers a share of the lookups' part; all of the bags' part goes to memory.

Backward with the update fused, as FBGEMM's exact optimizers do it: the indices are sorted, so that each
different row is updated once with the sum of its bags' gradients.

    of each lookup  2 (index + 4) in each pass of the sort, one for 8 bits of a row number
    of each lookup  s(gradient of its bag), which a cache answers for all but the first lookup of a bag
    of each touched row  2 s(r) and its optimizer state, read and written
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.embedding.columns import EmbeddingColumns
from perfcast.cost.embedding.cache import hit_shares

SECTOR_BYTES = 32
_OFFSET_BYTES, _TABLE_BYTES = 32.0, 64.0
_POSITION_BYTES = 4.0
_BITS_OF_A_PASS = 8
#: Pooled rows and gradients are fp32, whatever the weights are.
POOLED_BYTES = 4
#: State of an optimizer for each touched row: elements as wide as the row, and single numbers.
_STATES = {"sgd": (0, 0), "adagrad": (1, 0), "rowwise_adagrad": (0, 1)}


@dataclass(frozen=True, eq=False)
class Traffic:
    """What n lookups of tables read and write; shape [n].

    Attributes:
        memory_bytes: Between the device's memory and its last cache.
        cache_bytes: What that cache answers.
    """

    memory_bytes: Floats
    cache_bytes: Floats


def in_sectors(num_bytes: Floats) -> Floats:
    """Rounded up to whole sectors."""
    rounded: Floats = SECTOR_BYTES * np.ceil(num_bytes / SECTOR_BYTES)
    return rounded


def forward_traffic(columns: EmbeddingColumns, cached_rows: Floats) -> Traffic:
    """What the forward moves when the cache holds ``cached_rows`` rows of each table, shape [n]."""
    hits = hit_shares(columns.touched_rows, columns.touched_lookups, cached_rows)
    rows = columns.num_lookups * in_sectors(columns.row_bytes)
    return Traffic(_bag_bytes(columns) + (1 - hits) * rows, hits * rows)


def backward_traffic(columns: EmbeddingColumns, optimizer: str) -> Traffic:
    """What the backward and the update move."""
    wide, single = _STATES[optimizer]
    passes = np.ceil(np.log2(np.maximum(columns.num_rows, 2)) / _BITS_OF_A_PASS)
    sort = 2 * passes * columns.num_lookups * (columns.index_bytes + _POSITION_BYTES)
    gradient = in_sectors(columns.dim * POOLED_BYTES)
    first = np.minimum(columns.batch_size, columns.num_lookups)
    again = np.maximum(columns.num_lookups - columns.batch_size, 0.0)
    row = in_sectors(columns.row_bytes) + wide * in_sectors(columns.dim * POOLED_BYTES)
    updates = 2 * columns.unique_rows * (row + single * SECTOR_BYTES)
    return Traffic(_header_bytes(columns) + sort + first * gradient + updates, again * gradient)


def _bag_bytes(columns: EmbeddingColumns) -> Floats:
    return _header_bytes(columns) + columns.batch_size * in_sectors(columns.dim * POOLED_BYTES)


def _header_bytes(columns: EmbeddingColumns) -> Floats:
    indices = columns.batch_size * in_sectors(columns.pooling * columns.index_bytes)
    return indices + columns.batch_size * (_OFFSET_BYTES + _TABLE_BYTES)
