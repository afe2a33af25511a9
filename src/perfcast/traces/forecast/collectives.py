"""Recorded exchanges on another cluster, or between another number of ranks."""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.core.cluster import Cluster
from perfcast.core.collective import COLLECTIVES, collective_operation
from perfcast.core.operation import Operation
from perfcast.cost.prices import price_exchanges
from perfcast.errors import PlanError
from perfcast.traces.collectives.sizes import TimedExchange
from perfcast.traces.timeline.program import RankProgram


def exchange_seconds(
    program: RankProgram, exchanges: Mapping[int, TimedExchange], cluster: Cluster, world_size: int
) -> RankProgram:
    """The program with its exchanges priced on a cluster.

    Raises:
        PlanError: An exchange whose size was not recorded, or a group that does not fit the cluster.
    """
    operations: list[Operation | None] = []
    for work in program.works:
        exchange = exchanges.get(work.row)
        operations.append(_operation(exchange, world_size) if exchange else None)
    known = list(dict.fromkeys(o for o in operations if o is not None))
    prices = dict(zip(known, price_exchanges(known, cluster).seconds.tolist(), strict=True)) if known else {}
    return program.with_work_seconds(
        [prices[o] if o is not None else w.seconds for o, w in zip(operations, program.works, strict=True)]
    )


def _operation(exchange: TimedExchange, world_size: int) -> Operation:
    if exchange.name not in COLLECTIVES or not exchange.message_bytes:
        raise PlanError(
            f"event {exchange.row} is a {exchange.name} whose size was not recorded: it has no price on "
            "another cluster (record shapes, or a newer PyTorch)"
        )
    size = world_size if exchange.group_size in (0, 1) or not exchange.ranks else exchange.group_size
    ranks = exchange.ranks or tuple(range(size))
    return collective_operation(exchange.name, exchange.message_bytes, ranks)
