"""A sharding problem on a cluster of the catalog: its device's lookups, links' collectives and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.cluster import Cluster
from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind
from perfcast.cost.embedding.select import embedding_pricer
from perfcast.errors import InputError, UnknownNameError
from perfcast.prediction.names import resolve_device
from perfcast.search.sharding.choose import choose_sharding
from perfcast.search.sharding.communication import cluster_communication
from perfcast.search.sharding.problem import ALL_KINDS, ShardingProblem
from perfcast.search.sharding.result import ShardingChoice

#: Part of a device's memory that tables may fill; the same as in published tasks.
MEMORY_SHARE = 0.8


@dataclass(frozen=True)
class ShardingReport:
    """A choice with where it holds and what it takes for granted."""

    cluster: str
    device: str
    optimizer: str
    cost_model: str
    choice: ShardingChoice
    assumptions: tuple[str, ...]


def find_sharding(
    tables: Sequence[EmbeddingTable],
    cluster: Cluster,
    *,
    global_batch_size: int,
    optimizer: str = "rowwise_adagrad",
    memory_share: float = MEMORY_SHARE,
    kinds: Sequence[ShardingKind] = ALL_KINDS,
    cost_model: str | None = None,
    seed: int = 0,
) -> ShardingReport:
    """Place tables on all devices of a cluster.

    Args:
        global_batch_size: Samples of a step, over all devices.
        memory_share: Part of a device's memory that tables may fill.
        cost_model: Of lookups, ``cost.embedding.select``; by default the one that suits the device.

    Raises:
        PlanError: The tables do not fit; says what is missing where.
        InputError: A batch that the devices cannot share, or a share of memory that is none.
    """
    if not 0 < memory_share <= 1:
        raise InputError(f"a memory share of {memory_share:g}; it lies above 0 and is at most 1")
    device = resolve_device(cluster.device)
    pricer = embedding_pricer(device, optimizer=optimizer, name=cost_model)
    problem = ShardingProblem(
        tables=tuple(tables),
        num_ranks=cluster.num_devices,
        global_batch_size=global_batch_size,
        memory_bytes=memory_share * device.memory_bytes,
        cost=pricer,
        communication=cluster_communication(cluster),
        optimizer=optimizer,
        kinds=tuple(kinds),
    )
    choice = choose_sharding(problem, seed=seed)
    return ShardingReport(
        cluster.name, device.name, optimizer, pricer.name, choice, _assumptions(problem, memory_share)
    )


def parse_kinds(text: str) -> tuple[ShardingKind, ...]:
    """'row_wise,column_wise' → kinds; table-wise is always among them.

    Raises:
        UnknownNameError: Not a way of sharding.
    """
    known = {kind.value: kind for kind in ShardingKind}
    asked = [name.strip() for name in text.split(",") if name.strip()]
    for name in asked:
        if name not in known:
            raise UnknownNameError("way of sharding", name, known, f"Known: {', '.join(known)}.")
    return tuple(kind for name, kind in known.items() if name in asked or kind is ShardingKind.TABLE_WISE)


def _assumptions(problem: ShardingProblem, memory_share: float) -> tuple[str, ...]:
    unknown = sum(table.reuse is None for table in problem.tables)
    lines = [
        "a step is the lookups forward and backward (with the optimizer) and their collectives; "
        "dense layers are the same under every placement and left out",
        "nothing overlaps: a framework that prefetches indices hides their all-to-all",
        f"tables may fill {100 * memory_share:.0f} % of a device's memory",
    ]
    if unknown:
        lines.append(
            f"every row is equally likely in {unknown} of {len(problem.tables)} tables, of which no reuse "
            f"is known; --indices counts it"
        )
    return tuple(lines)
