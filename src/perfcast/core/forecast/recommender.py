"""The result of a forecast of a recommendation model's training step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfcast.core.embedding.lookup import TablePlacement
from perfcast.core.embedding.model import Recommender
from perfcast.core.forecast.fit import Fit, fit_of

#: What a rank's time goes to; the seconds of a rank add up to the step.
#: 'all-to-all' is that which no compute hides, 'all-reduce' likewise, 'waiting' for a slower rank.
RECOMMENDER_CAUSES = ("dense", "lookup forward", "lookup backward", "all-to-all", "all-reduce", "waiting")


@dataclass(frozen=True, slots=True)
class RecommenderSpan:
    """One piece of a rank's timeline, on its 'compute' or 'communication' stream."""

    rank: int
    stream: str
    label: str
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True, slots=True)
class RecommenderRank:
    """One rank.

    Attributes:
        seconds_by_cause: Of ``RECOMMENDER_CAUSES``; they add up to the step.
        memory_bytes: Peak.
        num_shards: Tables and parts of tables that it holds.
    """

    rank: int
    seconds_by_cause: Mapping[str, float]
    memory_bytes: float
    num_shards: int


@dataclass(frozen=True)
class RecommenderForecast:
    """Time and memory of one training step.

    Attributes:
        step_seconds_low, step_seconds_high: 90 % interval.
        optimizer: Of the tables.
        placements: Of every table, in the model's order.
        segment_seconds: Of the dense part, by segment; equal on all ranks.
        communication_bytes: What the busiest rank sends or receives, by all-to-all.
    """

    model: Recommender = field(repr=False)
    cluster: str
    device: str
    num_devices: int
    global_batch_size: int
    dtype: str
    optimizer: str
    cost_model: str
    placements: tuple[TablePlacement, ...] = field(repr=False)
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    ranks: tuple[RecommenderRank, ...] = field(repr=False)
    segment_seconds: Mapping[str, float]
    communication_bytes: Mapping[str, float]
    capacity_bytes: float
    spans: tuple[RecommenderSpan, ...] = field(default=(), repr=False)
    assumptions: tuple[str, ...] = field(default=(), repr=False)

    @property
    def samples_per_second(self) -> float:
        """Over all devices."""
        return self.global_batch_size / self.step_seconds

    @property
    def peak_memory_bytes(self) -> float:
        """Peak memory of the fullest rank."""
        return max(rank.memory_bytes for rank in self.ranks)

    @property
    def fits(self) -> bool:
        """Whether the fullest rank's device holds it."""
        return self.peak_memory_bytes <= self.capacity_bytes

    @property
    def fit(self) -> Fit:
        """The same with what is needed."""
        way_out = "" if self.fits else "more devices, or a placement of 'perfcast shard', may"
        return fit_of(round(self.peak_memory_bytes), round(self.capacity_bytes), way_out=way_out)

    @property
    def lookup_imbalance(self) -> float:
        """Slowest rank's lookups over the mean of all; 1: equal."""
        names = ("lookup forward", "lookup backward")
        seconds = [sum(rank.seconds_by_cause[name] for name in names) for rank in self.ranks]
        mean = sum(seconds) / len(seconds)
        return max(seconds) / mean if mean else 1.0
