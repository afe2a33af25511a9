"""What JSON holds of a choice of sharding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.report.answers import Answer, view
from perfcast.searches.sharding.on_cluster import ShardingReport
from perfcast.searches.sharding.result import BaselineTime, RankTime


@dataclass(frozen=True, kw_only=True)
class TimeData:
    """What a placement takes.

    Attributes:
        step_seconds: Lookups and collectives of a step, in seconds.
        step_seconds_low: Lower end of its 90 % interval, in seconds.
        step_seconds_high: Upper end of its 90 % interval, in seconds.
        forward_seconds: Lookups forward on the slowest device, in seconds.
        backward_seconds: Lookups backward, with the optimizer, on the slowest device, in seconds.
        index_seconds: All-to-all of indices, in seconds.
        output_seconds: All-to-all of pooled rows, in seconds.
        gradient_seconds: All-to-all of their gradients, in seconds.
        reduce_seconds: All-reduce of gradients of data-parallel tables, in seconds.
        imbalance: Lookups of the busiest device over the mean, less 1; a fraction.
        communication_seconds: All collectives, in seconds.
    """

    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    forward_seconds: float
    backward_seconds: float
    index_seconds: float
    output_seconds: float
    gradient_seconds: float
    reduce_seconds: float
    imbalance: float
    communication_seconds: float


@dataclass(frozen=True, kw_only=True)
class PlacementData:
    """Where a table lies.

    Attributes:
        sharding: How the table is sharded.
        ranks: Device of each slice, in the order of slices.
    """

    sharding: ShardingKind
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TableData:
    """A table and where it lies.

    Attributes:
        name: As in the file.
        num_rows: Rows.
        dim: Columns.
        pooling: Mean lookups of a bag.
        weight_bytes: Of the weights, in bytes.
        sharding: How the table is sharded.
        ranks: Device of each slice, in the order of slices.
    """

    name: str
    num_rows: int
    dim: int
    pooling: float
    weight_bytes: int
    sharding: ShardingKind
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BaselineData:
    """A published rule beside the choice.

    Attributes:
        name: Of the rule.
        fits: Whether its placement fits the memory.
        time: None where it does not fit.
        takes_longer_fraction: Its step over the chosen one's, less 1; a fraction.
        takes_longer_fraction_low: Lower end of its 90 % interval.
        takes_longer_fraction_high: Upper end of its 90 % interval.
        placements: One for each table.
    """

    name: str
    fits: bool
    time: TimeData | None
    takes_longer_fraction: float | None
    takes_longer_fraction_low: float | None
    takes_longer_fraction_high: float | None
    placements: tuple[PlacementData, ...] | None


@dataclass(frozen=True, kw_only=True)
class ShardData(Answer):
    """A choice of sharding.

    Attributes:
        cluster: Name of the cluster.
        device: Catalog name of its device.
        num_devices: Devices of the cluster.
        global_batch_size: Samples of a step, over all devices.
        optimizer: Of the tables.
        cost_model: What priced the lookups.
        memory_limit_bytes: What a device has for tables, in bytes.
        time: What a step takes, in seconds.
        tables: In the order of the file.
        devices: By rank.
        baselines: Published rules.
        found_from: Which start of the search led there.
        num_changes: Changes that the search made.
        assumptions: What is taken for granted.
    """

    table: ClassVar[str] = "tables"

    cluster: str
    device: str
    num_devices: int
    global_batch_size: int
    optimizer: str
    cost_model: str
    memory_limit_bytes: float
    time: TimeData
    tables: tuple[TableData, ...]
    devices: tuple[RankTime, ...]
    baselines: tuple[BaselineData, ...]
    found_from: str
    num_changes: int
    assumptions: tuple[str, ...]


def data_of(found: ShardingReport) -> ShardData:
    """Everything that was found."""
    choice = found.choice
    places = zip(choice.tables, choice.placements, strict=True)
    return view(
        ShardData,
        found,
        num_devices=choice.num_ranks,
        global_batch_size=choice.global_batch_size,
        memory_limit_bytes=choice.memory_limit_bytes,
        time=view(TimeData, choice.time),
        tables=tuple(_table(table, placement) for table, placement in places),
        devices=choice.ranks,
        baselines=tuple(_baseline(one) for one in choice.baselines),
        found_from=choice.origin,
        num_changes=choice.num_rounds,
    )


def _table(table: EmbeddingTable, placement: TablePlacement) -> TableData:
    return view(TableData, table, sharding=placement.kind, ranks=placement.ranks)


def _placement(placement: TablePlacement) -> PlacementData:
    return PlacementData(sharding=placement.kind, ranks=placement.ranks)


def _baseline(one: BaselineTime) -> BaselineData:
    places = one.placements
    return BaselineData(
        name=one.name,
        fits=one.time is not None,
        time=None if one.time is None else view(TimeData, one.time),
        takes_longer_fraction=one.gain,
        takes_longer_fraction_low=one.gain_low,
        takes_longer_fraction_high=one.gain_high,
        placements=None if places is None else tuple(_placement(place) for place in places),
    )
