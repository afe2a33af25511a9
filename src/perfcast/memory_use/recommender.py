"""Memory of each rank that trains a sharded recommendation model.

tables       weights of its shards, and their optimizer's state
dense        weights, gradients and optimizer's state of the networks, which every rank has
activations  what the networks keep for their backward
collectives  indices of its shards for the whole batch, pooled rows that it sends, pooled rows that it
             receives, and the gradients of both, while the first are still there
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.dtype import DType
from perfcast.core.embedding.sharding import (
    Placements,
    Tables,
    index_bytes_between,
    pooled_bytes_between,
    weight_bytes_of_ranks,
)

#: Bytes of an optimizer's state for a weight of a table, and for a row.
_STATE_BYTES = {"sgd": (0, 0), "adagrad": (4, 0), "rowwise_adagrad": (0, 4)}


@dataclass(frozen=True, eq=False)
class RecommenderMemory:
    """Bytes on each rank, shape [ranks]."""

    table_bytes: Floats
    table_state_bytes: Floats
    communication_bytes: Floats
    dense_bytes: float
    activation_bytes: float

    @property
    def total_bytes(self) -> Floats:
        """Peak, shape [ranks]."""
        total: Floats = (
            self.table_bytes
            + self.table_state_bytes
            + self.communication_bytes
            + self.dense_bytes
            + self.activation_bytes
        )
        return total


def estimate_recommender_memory(
    tables: Tables,
    placements: Placements,
    world_size: int,
    global_batch_size: int,
    optimizer: str,
    *,
    dense_bytes: float,
    activation_bytes: float,
    pooled_dtype: DType = DType.FP32,
) -> RecommenderMemory:
    """Memory under a sharding.

    Args:
        optimizer: Of the tables, one of ``cost.embedding.model.OPTIMIZERS``.
        dense_bytes: Weights, gradients and states of the networks.
        activation_bytes: Of the networks at the end of their forward.
    """
    of_weight, of_row = _STATE_BYTES[optimizer]
    elements, rows = np.zeros(world_size), np.zeros(world_size)
    for table, place in zip(tables, placements, strict=True):
        each = weight_bytes_of_ranks([table], [place], world_size) / (table.dtype.bits / 8)
        elements += each
        rows += each / table.dim
    pooled = pooled_bytes_between(tables, placements, world_size, global_batch_size, pooled_dtype)
    indices = index_bytes_between(tables, placements, world_size, global_batch_size)
    return RecommenderMemory(
        table_bytes=weight_bytes_of_ranks(tables, placements, world_size),
        table_state_bytes=elements * of_weight + rows * of_row,
        communication_bytes=indices.sum(axis=0) + 2 * (pooled.sum(axis=1) + pooled.sum(axis=0)),
        dense_bytes=dense_bytes,
        activation_bytes=activation_bytes,
    )
