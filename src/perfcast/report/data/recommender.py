"""What JSON holds of a recommendation model's step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.embedding.lookup import ShardingKind
from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.recommender import RecommenderForecast, RecommenderRank
from perfcast.report.answers import Answer, view


@dataclass(frozen=True, kw_only=True)
class TablePlacementData:
    """Where a table lies.

    Attributes:
        table: Name of the table.
        kind: How it is sharded.
        ranks: Ranks of its pieces, in order; of replicas none are named where all have one.
    """

    table: str
    kind: ShardingKind
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RecommenderData(Answer):
    """A training step of a recommendation model whose embedding tables are sharded over devices.

    Attributes:
        fits: Whether the device's memory holds it; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: Name of the model.
        cluster: Name of the cluster.
        device: Name of its devices.
        num_devices: Devices, one rank each.
        global_batch_size: Samples of a step, over all devices.
        dtype: Precision of the dense networks.
        optimizer: Of the tables, fused with their backward.
        cost_model: What prices the dense networks.
        step_seconds: A training step, in seconds.
        step_seconds_low: Low end of its 90 % interval, in seconds.
        step_seconds_high: High end of its 90 % interval, in seconds.
        samples_per_second: Over all devices.
        peak_memory_bytes: Of the fullest rank, in bytes.
        capacity_bytes: Memory of a device, in bytes.
        lookup_imbalance: The slowest rank's lookups over their mean over ranks.
        segment_seconds: Parts of the dense networks, equal on all ranks, in seconds.
        communication_bytes: What the busiest rank sends or receives, by all-to-all, in bytes.
        sharding: Where each table lies, in the model's order.
        ranks: Each rank.
        assumptions: What was taken for granted.
    """

    table: ClassVar[str] = "ranks"

    fits: bool
    verdict: str
    model: str
    cluster: str
    device: str
    num_devices: int
    global_batch_size: int
    dtype: str
    optimizer: str
    cost_model: str
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    samples_per_second: float
    peak_memory_bytes: float
    capacity_bytes: float
    lookup_imbalance: float
    segment_seconds: dict[str, float]
    communication_bytes: dict[str, float]
    sharding: tuple[TablePlacementData, ...]
    ranks: tuple[RecommenderRank, ...]
    assumptions: tuple[str, ...]


def data_of(forecast: RecommenderForecast) -> RecommenderData:
    """Everything but the timeline."""
    places = zip(forecast.model.tables, forecast.placements, strict=True)
    return view(
        RecommenderData,
        forecast,
        verdict=first_said((forecast.fit,)),
        model=forecast.model.name,
        sharding=tuple(
            TablePlacementData(table=table.name, kind=place.kind, ranks=place.ranks)
            for table, place in places
        ),
    )
