"""What ``perfcast shard`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfcast.ranges import BATCH, FRACTION, SEED
from perfcast.verbs.question import FILE, PLACE, Question, usually


@dataclass(frozen=True)
class _Sharded(Question):
    """What is placed: the field that goes without its name in Python.

    Attributes:
        tables: A .csv, .json or .toml file with name, num_rows, dim and pooling of each table.
    """

    arguments: ClassVar[tuple[str, ...]] = ("tables",)

    tables: str = field(metadata=PLACE)


@dataclass(frozen=True, kw_only=True)
class ShardQuestion(_Sharded):
    """Where the embedding tables of a recommendation model lie on a cluster.

    Attributes:
        cluster: And how many devices.
        batch_size: Samples of a step, over all devices.
        indices: Samples of indices (.npz, .parquet): pooling and reuse.
        optimizer: sgd, adagrad or rowwise_adagrad.
        kinds: Ways of sharding that are allowed; table_wise always is.
        memory_share: Of a device, that tables may fill.
        cost_model: heuristic (GPUs) or learned (processors); default: what suits the device.
        seed: Of the random baseline and intervals.
    """

    verb: ClassVar[str] = "shard"

    cluster: str = field(metadata=FILE)
    batch_size: int | None = field(default=None, metadata=usually(65_536, within=BATCH))
    indices: str | None = field(default=None, metadata=PLACE)
    optimizer: str | None = field(default=None, metadata=usually("rowwise_adagrad"))
    kinds: str | None = field(default=None, metadata=usually("row_wise,column_wise,data_parallel"))
    memory_share: float | None = field(default=None, metadata=usually(0.8, within=FRACTION))
    cost_model: str | None = None
    seed: int | None = field(default=None, metadata=usually(0, within=SEED))
