"""What is to be placed, on how many ranks, and what a placement costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from perfcast.core.arrays import Floats
from perfcast.core.embedding.columns import EmbeddingColumns
from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind
from perfcast.errors import InputError, UnknownNameError

Phase = Literal["forward", "backward"]

#: Bytes that an optimizer keeps: for each row, and for each element (32-bit states).
OPTIMIZER_STATES: Mapping[str, tuple[float, float]] = {
    "sgd": (0.0, 0.0),
    "rowwise_adagrad": (4.0, 0.0),
    "adagrad": (0.0, 4.0),
}
ALL_KINDS = tuple(ShardingKind)


class LookupCost(Protocol):
    """What a device takes for lookups in many tables: a function of the sum of one vector for each table.

    The sum makes a search incremental: a table that moves takes its vector along. The pricers of
    ``cost/embedding`` are such costs.
    """

    @property
    def relative_spread(self) -> float:
        """Standard deviation of ln(measured / predicted)."""
        ...

    def table_vectors(self, columns: EmbeddingColumns, phase: Phase) -> Floats:
        """Vectors of n lookups, shape [n, k]."""
        ...

    def device_seconds(self, summed: Floats, phase: Phase) -> Floats:
        """Seconds of sums of vectors, shape [m, k] → [m]; a sum of zeros takes no time."""
        ...


class CommunicationTimes(Protocol):
    """What the ranks take to exchange bytes; the message of NCCL's convention, shape [m] → seconds [m]."""

    def all_to_all_seconds(self, message_bytes: Floats) -> Floats:
        """An even all-to-all in which every rank holds so many bytes."""
        ...

    def all_reduce_seconds(self, message_bytes: Floats) -> Floats:
        """An all-reduce of so many bytes."""
        ...


@dataclass(frozen=True)
class ShardingProblem:
    """Tables to be placed on equal ranks.

    Attributes:
        global_batch_size: Samples of a step, over all ranks.
        memory_bytes: What one rank has for tables, optimizer states, and what it looks up.
        optimizer: Of ``OPTIMIZER_STATES``.
        kinds: Ways of sharding that a plan may use; table-wise always.
    """

    tables: tuple[EmbeddingTable, ...]
    num_ranks: int
    global_batch_size: int
    memory_bytes: float
    cost: LookupCost
    communication: CommunicationTimes
    optimizer: str = "rowwise_adagrad"
    kinds: tuple[ShardingKind, ...] = ALL_KINDS

    def __post_init__(self) -> None:
        if not self.tables:
            raise InputError("there is no table to place")
        if self.num_ranks < 1:
            raise InputError(f"{self.num_ranks} devices: tables lie on at least one")
        if self.global_batch_size < 1 or self.global_batch_size % self.num_ranks:
            more = max(-(-self.global_batch_size // self.num_ranks), 1) * self.num_ranks
            raise InputError(
                f"a batch of {self.global_batch_size} samples does not share among {self.num_ranks} devices; "
                f"take {more}"
            )
        if self.optimizer not in OPTIMIZER_STATES:
            known = ", ".join(OPTIMIZER_STATES)
            raise UnknownNameError("optimizer", self.optimizer, OPTIMIZER_STATES, f"Known: {known}.")
        names = {table.name for table in self.tables}
        if len(names) < len(self.tables):
            raise InputError("two tables have the same name; names tell them apart in a plan")

    @property
    def local_batch_size(self) -> int:
        """Samples of one rank."""
        return self.global_batch_size // self.num_ranks
