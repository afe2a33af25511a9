"""A sharding problem on a cluster of the catalog: its device's lookups, links' collectives and memory."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.embedding.lookup import ShardingKind
from perfcast.cost.embedding.select import embedding_pricer
from perfcast.errors import UnknownNameError
from perfcast.prediction.names import resolve_device
from perfcast.searches.sharding.choose import choose_sharding
from perfcast.searches.sharding.communication import cluster_communication
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.searches.sharding.request import ShardingRequest
from perfcast.searches.sharding.result import ShardingChoice


@dataclass(frozen=True)
class ShardingReport:
    """A choice with where it holds and what it takes for granted."""

    cluster: str
    device: str
    optimizer: str
    cost_model: str
    choice: ShardingChoice
    assumptions: tuple[str, ...]


def find_sharding(request: ShardingRequest) -> ShardingReport:
    """Place tables on all devices of a cluster.

    Raises:
        PlanError: The tables do not fit; says what is missing where.
        InputError: A batch that the devices cannot share.
    """
    cluster, device = request.cluster, resolve_device(request.cluster.device)
    pricer = embedding_pricer(device, optimizer=request.optimizer, name=request.cost_model)
    problem = ShardingProblem(
        tables=request.tables,
        num_ranks=cluster.num_devices,
        global_batch_size=request.global_batch_size,
        memory_bytes=request.memory_share * device.memory_bytes,
        cost=pricer,
        communication=cluster_communication(cluster),
        optimizer=request.optimizer,
        kinds=request.kinds,
    )
    return ShardingReport(
        cluster.name,
        device.name,
        request.optimizer,
        pricer.name,
        choose_sharding(problem, seed=request.seed),
        _assumptions(problem, request.memory_share),
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
