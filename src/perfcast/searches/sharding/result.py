"""What a choice of sharding finds, as data."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.embedding.lookup import EmbeddingTable, TablePlacement


@dataclass(frozen=True)
class ShardingTime:
    """Seconds of a step's lookups and collectives under one placement.

    Attributes:
        forward_seconds, backward_seconds: Of the slowest rank; the backward pass holds the optimizer.
        index_seconds, output_seconds, gradient_seconds, reduce_seconds: Collectives: indices before the
            lookups, their sums after them, the gradients of these back; the all-reduce of data-parallel
            tables.
        imbalance: Lookups of the busiest rank over their mean over ranks, less 1.
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

    @property
    def communication_seconds(self) -> float:
        """All collectives."""
        return self.index_seconds + self.output_seconds + self.gradient_seconds + self.reduce_seconds


@dataclass(frozen=True)
class RankTime:
    """One rank.

    Attributes:
        num_tables: Tables of which it holds a piece, data-parallel ones included.
        sent_bytes: Outputs for other ranks.
    """

    rank: int
    num_tables: int
    forward_seconds: float
    backward_seconds: float
    sent_bytes: float
    memory_bytes: float


@dataclass(frozen=True)
class BaselineTime:
    """A published rule beside the choice.

    Attributes:
        time, placements: None where a rank runs out of memory.
        gain: Its step over the chosen one's, less 1: how much longer it is expected to take; with its 90 %
            interval, in which errors common to both cancel.
    """

    name: str
    time: ShardingTime | None
    placements: tuple[TablePlacement, ...] | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None


@dataclass(frozen=True)
class ShardingChoice:
    """The placement chosen, and what it is compared with.

    Attributes:
        placements: One for each table, in order.
        ranks: Times and bytes by rank.
        memory_limit_bytes: What a rank has for tables.
        origin: Which start of the search led there, or the baseline that could not be bettered.
        num_rounds: Changes that the search made.
    """

    tables: tuple[EmbeddingTable, ...]
    placements: tuple[TablePlacement, ...]
    num_ranks: int
    global_batch_size: int
    memory_limit_bytes: float
    time: ShardingTime
    ranks: tuple[RankTime, ...]
    baselines: tuple[BaselineTime, ...]
    origin: str
    num_rounds: int
