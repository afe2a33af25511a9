"""Embedding lookups in columns: thousands of tables and shards are priced in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.core.embedding.reuse import rescaled_reuse, uniform_reuse


@dataclass(frozen=True, eq=False)
class EmbeddingColumns:
    """n lookups, each of one table or shard for one batch on one rank; arrays of shape [n] unless said.

    Attributes:
        num_rows, dim: Of the table or shard.
        batch_size: Bags.
        pooling: Mean lookups of a bag.
        element_bytes: Of a weight.
        index_bytes: Of an index.
        touched_rows: Different rows that the batch touches, by reuse; shape [n, 17].
        touched_lookups: Lookups that fall on them; shape [n, 17].
        is_reuse_known: Whether the two were given; else every row is taken to be equally likely.
    """

    num_rows: Floats
    dim: Floats
    batch_size: Floats
    pooling: Floats
    element_bytes: Floats
    index_bytes: Floats
    touched_rows: Floats
    touched_lookups: Floats
    is_reuse_known: Flags

    def __len__(self) -> int:
        return len(self.num_rows)

    def take(self, index: Integers | slice) -> EmbeddingColumns:
        """The lookups that ``index`` selects."""
        return EmbeddingColumns(*(getattr(self, field.name)[index] for field in fields(self)))

    @property
    def num_lookups(self) -> Floats:
        """Rows read, repeated ones each time, shape [n]."""
        return self.batch_size * self.pooling

    @property
    def unique_rows(self) -> Floats:
        """Different rows read, shape [n]."""
        unique: Floats = self.touched_rows.sum(axis=1)
        return unique

    @property
    def row_bytes(self) -> Floats:
        """Bytes of one row of weights, shape [n]."""
        return self.dim * self.element_bytes


def embedding_columns(lookups: Sequence[EmbeddingLookup]) -> EmbeddingColumns:
    """Lookups in columns.

    A reuse histogram of another number of lookups than the batch's is carried to it (``rescaled_reuse``);
    where none is known every row is taken to be equally likely.
    """
    reuses = [
        uniform_reuse(at.num_rows, round(at.num_lookups))
        if at.reuse is None or (at.reuse.num_lookups == 0 and at.num_lookups > 0)
        else rescaled_reuse(at.reuse, at.num_lookups, at.num_rows)
        for at in lookups
    ]
    shape = (len(lookups), -1) if lookups else (0, 17)
    return EmbeddingColumns(
        num_rows=np.array([at.num_rows for at in lookups], dtype=np.float64),
        dim=np.array([at.dim for at in lookups], dtype=np.float64),
        batch_size=np.array([at.batch_size for at in lookups], dtype=np.float64),
        pooling=np.array([at.pooling for at in lookups], dtype=np.float64),
        element_bytes=np.array([at.dtype.bits / 8 for at in lookups], dtype=np.float64),
        index_bytes=np.array([at.index_dtype.bits / 8 for at in lookups], dtype=np.float64),
        touched_rows=np.array([reuse.rows for reuse in reuses], dtype=np.float64).reshape(shape),
        touched_lookups=np.array([reuse.lookups for reuse in reuses], dtype=np.float64).reshape(shape),
        is_reuse_known=np.array([at.reuse is not None for at in lookups], dtype=bool),
    )
