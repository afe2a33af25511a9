"""What is asked of a placement of embedding tables."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind
from perfcast.core.machine.cluster import Cluster
from perfcast.errors import InputError
from perfcast.ranges import BATCH, SEED, Range
from perfcast.searches.sharding.problem import ALL_KINDS

#: Part of a device's memory that tables may fill; the same as in published tasks.
MEMORY_SHARE = 0.8


#: Tables that are placed, and places that are weighed: sixteen million take some 45 s.
_TABLES = Range(0, 100_000, "join tables that are alike")
_PLACES = Range(0, 50_000_000, "join tables that are alike, or place them on one part of the cluster")


@dataclass(frozen=True, kw_only=True)
class ShardingRequest:
    """Tables placed on all devices of a cluster.

    Attributes:
        global_batch_size: Samples of a step, over all devices.
        optimizer: 'sgd', 'adagrad' or 'rowwise_adagrad'.
        memory_share: Part of a device's memory that tables may fill.
        kinds: Ways of sharding that are allowed.
        cost_model: Of lookups, ``cost.embedding.select``; None: the one that suits the device.
        seed: Of the random baseline and of intervals.
    """

    tables: tuple[EmbeddingTable, ...]
    cluster: Cluster
    global_batch_size: int
    optimizer: str = "rowwise_adagrad"
    memory_share: float = MEMORY_SHARE
    kinds: tuple[ShardingKind, ...] = ALL_KINDS
    cost_model: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.memory_share <= 1:
            raise InputError(f"a memory share of {self.memory_share:g}; it lies above 0 and is at most 1")
        BATCH.check("batch size", self.global_batch_size)
        SEED.check("seed", self.seed)
        _TABLES.check("tables:", len(self.tables))
        _PLACES.check("tables times devices:", len(self.tables) * self.cluster.num_devices)
