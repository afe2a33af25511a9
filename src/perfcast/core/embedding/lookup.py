"""Embedding tables, what a batch looks up in them, and how tables lie on ranks.

A table has ``num_rows`` rows of ``dim`` elements. A bag is a row of one sample: the sum of the rows that its
indices name; ``pooling`` is the mean number of them.

How often a batch looks up the same row decides how much of the work a cache answers. A *reuse histogram*
says it: rows that the batch touches, by the number of lookups c that fall on each of them, in 17 bins

    bin 0: c = 1,  bin k: 2^(k-1) < c ≤ 2^k for k = 1 … 15,  bin 16: c > 2^15

(the bins of facebookresearch/dlrm_datasets and of Lin et al., TPDS 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from perfcast.core.dtype import DType
from perfcast.errors import InputError

#: Largest number of lookups of a row in each bin but the last, which has no limit.
REUSE_LIMITS: tuple[int, ...] = tuple(2**k for k in range(16))
NUM_REUSE_BINS = len(REUSE_LIMITS) + 1


@dataclass(frozen=True, slots=True)
class ReuseHistogram:
    """Rows that a batch touches and the lookups that fall on them, by reuse.

    Attributes:
        rows: Touched rows in each bin; 17 counts, which may be fractions where they are expected values.
        lookups: Lookups of these rows; 17 counts. ``lookups[k] / rows[k]`` is the mean reuse in bin k.
    """

    rows: tuple[float, ...]
    lookups: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.rows) != NUM_REUSE_BINS or len(self.lookups) != NUM_REUSE_BINS:
            raise InputError(
                f"a reuse histogram has {NUM_REUSE_BINS} bins, not {len(self.rows)} and {len(self.lookups)}"
            )
        for k, (rows, lookups) in enumerate(zip(self.rows, self.lookups, strict=True)):
            low = REUSE_LIMITS[k - 1] if k else 1
            high = REUSE_LIMITS[k] if k < len(REUSE_LIMITS) else math.inf
            fits = math.isfinite(lookups) and rows >= 0 and low * rows * (1 - _SLACK) <= lookups
            if not fits or (rows == 0 < lookups) or (rows and lookups > high * rows * (1 + _SLACK)):
                raise InputError(
                    f"bin {k} of a reuse histogram holds rows with {low} to {high:g} lookups each, "
                    f"not {rows:g} rows with {lookups:g}"
                )

    @property
    def num_rows(self) -> float:
        """Different rows that the batch touches."""
        return math.fsum(self.rows)

    @property
    def num_lookups(self) -> float:
        """Lookups of the batch."""
        return math.fsum(self.lookups)

    @property
    def row_fractions(self) -> tuple[float, ...]:
        """Share of the touched rows in each bin: sums to 1, or all 0 where nothing is looked up."""
        total = self.num_rows
        return tuple(rows / total if total else 0.0 for rows in self.rows)

    @property
    def lookup_fractions(self) -> tuple[float, ...]:
        """Share of the lookups in each bin: sums to 1, or all 0 where nothing is looked up."""
        total = self.num_lookups
        return tuple(lookups / total if total else 0.0 for lookups in self.lookups)


#: Relative: counts that are expected values carry rounding.
_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class EmbeddingTable:
    """A table and how it is used.

    Attributes:
        pooling: Mean lookups of a bag; may be below 1, since bags may be empty.
        dtype: Of the weights.
        pooling_deviation: Standard deviation of lookups over bags; 0: all bags are equally long.
        reuse: Of one batch, which may be of another size than the one asked about; None: not known.
    """

    name: str
    num_rows: int
    dim: int
    pooling: float
    dtype: DType = DType.FP32
    pooling_deviation: float = 0.0
    reuse: ReuseHistogram | None = None

    def __post_init__(self) -> None:
        _check_shape(f"table {self.name!r}", self.num_rows, self.dim, self.pooling)
        if not (math.isfinite(self.pooling_deviation) and self.pooling_deviation >= 0):
            raise InputError(f"table {self.name!r}: a pooling deviation of {self.pooling_deviation}")

    @property
    def num_elements(self) -> int:
        """Weights."""
        return self.num_rows * self.dim

    @property
    def weight_bytes(self) -> int:
        """Memory of the weights."""
        return self.dtype.bytes_of(self.num_elements)


@dataclass(frozen=True, slots=True)
class EmbeddingLookup:
    """What one rank looks up in one table, or in its shard of one, for one batch.

    Attributes:
        num_rows, dim: Of the shard.
        batch_size: Bags.
        pooling: Mean lookups of a bag in this shard.
        index_dtype: Of the indices.
        reuse: Of this batch and this shard; None: not known.
    """

    num_rows: int
    dim: int
    batch_size: int
    pooling: float
    dtype: DType = DType.FP32
    index_dtype: DType = DType.INT64
    reuse: ReuseHistogram | None = None

    def __post_init__(self) -> None:
        _check_shape("a lookup", self.num_rows, self.dim, self.pooling)
        if self.batch_size < 1:
            raise InputError(f"a lookup of {self.batch_size} bags; it has at least one")

    @property
    def num_lookups(self) -> float:
        """Rows read, repeated ones each time."""
        return self.batch_size * self.pooling

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of weights."""
        return self.dtype.bytes_of(self.dim)


class ShardingKind(Enum):
    """How a table lies on ranks (the kinds of TorchRec)."""

    TABLE_WISE = "table_wise"
    ROW_WISE = "row_wise"
    COLUMN_WISE = "column_wise"
    DATA_PARALLEL = "data_parallel"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class TablePlacement:
    """Where a table lies.

    Attributes:
        ranks: Table-wise: the one rank. Row- and column-wise: one for each slice, in the order of the slices,
            all different for rows; a rank may hold several slices of columns. Data-parallel: all ranks.
    """

    kind: ShardingKind
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.ranks or min(self.ranks) < 0:
            raise InputError(f"a table lies on ranks from 0, not on {list(self.ranks)}")
        if self.kind is ShardingKind.TABLE_WISE and len(self.ranks) != 1:
            raise InputError(f"a table-wise table lies on one rank, not on {list(self.ranks)}")
        has_repeats = len(set(self.ranks)) < len(self.ranks)
        if self.kind in (ShardingKind.ROW_WISE, ShardingKind.DATA_PARALLEL) and has_repeats:
            raise InputError(
                f"{self.kind.value} shards of a table lie on different ranks: {list(self.ranks)}"
            )


def _check_shape(what: str, num_rows: int, dim: int, pooling: float) -> None:
    if num_rows < 1 or dim < 1:
        raise InputError(f"{what} of {num_rows} rows of {dim} elements; both are at least 1")
    if not (math.isfinite(pooling) and pooling >= 0):
        raise InputError(f"{what} with {pooling} lookups a bag; it must be a number from zero")
