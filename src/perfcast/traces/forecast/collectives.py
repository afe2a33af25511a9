"""Recorded collectives on another cluster, or between another number of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from perfcast.core.cluster import Cluster
from perfcast.core.collective import COLLECTIVES, collective_operation
from perfcast.core.operation import Operation
from perfcast.cost.prices import price_communication
from perfcast.errors import PlanError
from perfcast.traces.collectives.sizes import TimedCollective
from perfcast.traces.timeline.program import RankProgram

#: Of an interval of prices.
End = Literal["seconds", "seconds_low", "seconds_high"]


def communication_seconds(
    program: RankProgram,
    collectives: Mapping[int, TimedCollective],
    cluster: Cluster,
    world_size: int,
    end: End = "seconds",
) -> RankProgram:
    """The program with its collectives priced on a cluster.

    Args:
        end: Of the prices' interval.

    Raises:
        PlanError: A collective whose size was not recorded, or a group that does not fit the cluster.
    """
    operations: list[Operation | None] = []
    for work in program.works:
        collective = collectives.get(work.row)
        operations.append(_operation(collective, world_size) if collective else None)
    known = list(dict.fromkeys(o for o in operations if o is not None))
    prices: dict[Operation, float] = {}
    if known:
        seconds = getattr(price_communication(known, cluster), end)
        prices = dict(zip(known, seconds.tolist(), strict=True))
    return program.with_work_seconds(
        [prices[o] if o is not None else w.seconds for o, w in zip(operations, program.works, strict=True)]
    )


def _operation(collective: TimedCollective, world_size: int) -> Operation:
    if collective.name not in COLLECTIVES or not collective.message_bytes:
        raise PlanError(
            f"event {collective.row} is a {collective.name} whose size was not recorded: it has no price on "
            "another cluster (record shapes, or a newer PyTorch)"
        )
    size = world_size if collective.group_size in (0, 1) or not collective.ranks else collective.group_size
    ranks = collective.ranks or tuple(range(size))
    return collective_operation(collective.name, collective.message_bytes, ranks)
