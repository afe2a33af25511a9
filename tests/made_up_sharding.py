"""Tables, lookups and collectives whose times are plain sums, so that they can be worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.embedding.columns import EmbeddingColumns
from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind
from perfcast.searches.sharding.problem import ShardingProblem


@dataclass(frozen=True)
class LinearCost:
    """A nanosecond for every element looked up forward, two backward; a microsecond for each table."""

    seconds_per_element: float = 1e-9
    seconds_per_table: float = 1e-6
    relative_spread: float = 0.1

    def table_vectors(self, columns: EmbeddingColumns, phase: str) -> Floats:
        elements = columns.num_lookups * columns.dim * (1 if phase == "forward" else 2)
        return np.stack([elements, np.ones(len(columns))], axis=1)

    def device_seconds(self, summed: Floats, phase: str) -> Floats:
        seconds: Floats = summed @ np.array([self.seconds_per_element, self.seconds_per_table])
        return seconds


@dataclass(frozen=True)
class LinearCommunication:
    """A second for every so many bytes of a message."""

    bytes_per_second: float = 1e9

    def all_to_all_seconds(self, message_bytes: Floats) -> Floats:
        return message_bytes / self.bytes_per_second

    def all_reduce_seconds(self, message_bytes: Floats) -> Floats:
        return 2 * message_bytes / self.bytes_per_second


def table(name: str, num_rows: int = 1000, dim: int = 64, pooling: float = 10.0) -> EmbeddingTable:
    return EmbeddingTable(name, num_rows, dim, pooling)


def random_tables(count: int, seed: int, most_rows: float = 1e5) -> tuple[EmbeddingTable, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        EmbeddingTable(
            f"t{i}", int(np.exp(rng.uniform(3, np.log(most_rows)))), int(rng.choice((16, 32, 64, 128))),
            float(rng.integers(1, 60)),
        )
        for i in range(count)
    )  # fmt: skip


def problem(tables: tuple[EmbeddingTable, ...], num_ranks: int = 2, **changes: Any) -> ShardingProblem:
    """Ample memory, a batch of 8 samples a rank and stateless SGD, unless said."""
    given: dict[str, Any] = {
        "global_batch_size": 8 * num_ranks, "memory_bytes": 1e12, "cost": LinearCost(),
        "communication": LinearCommunication(), "optimizer": "sgd", "kinds": tuple(ShardingKind),
    }  # fmt: skip
    return ShardingProblem(tables, num_ranks, **(given | changes))
