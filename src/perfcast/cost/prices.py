"""Prices of kernels on a device and of collectives on a cluster, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.collective import group_ranks, message_bytes, num_groups, reads_peers, token_routing
from perfcast.core.dtype import DType
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.machine.host import uses_host
from perfcast.core.operation import Operation, OperationKind
from perfcast.cost.collective.datasheet import price_collectives
from perfcast.cost.collective.geometry import dispatch_visits
from perfcast.cost.collective.peer import HIGH, LOW, peer_all_reduce
from perfcast.cost.collective.table import collective_table
from perfcast.cost.host_link import price_on_host
from perfcast.cost.model import CostModel, Estimates
from perfcast.errors import PlanError

#: Element types that switches add up (NVLink SHARP and InfiniBand SHARP: floating point of 16 bits and more).
_REDUCIBLE = frozenset({DType.FP64, DType.FP32, DType.FP16, DType.BF16})


@dataclass(frozen=True)
class Prices:
    """Seconds of one run of each operation, with a 90 % interval, and what the price rests on.

    Attributes:
        errs_as_one: Of kernels, see ``Estimates``.
    """

    seconds: Mapping[Operation, float]
    seconds_low: Mapping[Operation, float]
    seconds_high: Mapping[Operation, float]
    provenance: Mapping[Operation, str]
    errs_as_one: bool = False


def price_operations(
    operations: Sequence[Operation], device: Device, cost_model: CostModel, cluster: Cluster | None = None
) -> Prices:
    """Price each operation once: kernels by the cost model, collectives by the cluster's links, copies to the
    host and updates there by the host's.

    Raises:
        PlanError: A collective between devices without a cluster, or a group that does not lie in it; a
            device of whose host nothing is known.
    """
    local = [o for o in operations if o.kind is not OperationKind.COLLECTIVE]
    kernels, hosted = [o for o in local if not uses_host(o)], [o for o in local if uses_host(o)]
    collectives = [o for o in operations if o.kind is OperationKind.COLLECTIVE]
    priced = [(kernels, cost_model.estimate(kernels, device))] if kernels else []
    if hosted:
        priced.append((hosted, price_on_host(hosted, device)))
    if collectives:
        if cluster is None:
            raise PlanError(
                f"a {collectives[0].name} between devices has no price without a cluster (--cluster)"
            )
        priced.append((collectives, price_communication(collectives, cluster)))
    middle, low, high = (dict[Operation, float]() for _ in range(3))
    provenance: dict[Operation, str] = {}
    for part, estimates in priced:
        middle.update(zip(part, estimates.seconds.tolist(), strict=True))
        low.update(zip(part, estimates.seconds_low.tolist(), strict=True))
        high.update(zip(part, estimates.seconds_high.tolist(), strict=True))
        provenance.update(zip(part, estimates.provenance, strict=True))
    return Prices(middle, low, high, provenance, any(estimates.errs_as_one for _, estimates in priced))


def price_communication(operations: Sequence[Operation], cluster: Cluster) -> Estimates:
    """Collective operations on a cluster, from its datasheet.

    Raises:
        PlanError: A group that does not lie in the cluster, or fills its levels unevenly.
    """
    spans: dict[object, tuple[int, ...]] = {}
    rows = []
    for operation in operations:
        key = operation.attribute("ranks")
        if key not in spans:
            spans[key] = cluster.span(tuple(group_ranks(operation)))
        rows.append(spans[key])
    times = price_collectives(
        cluster,
        collective_table(
            [o.name for o in operations],
            np.array([message_bytes(o) for o in operations], dtype=np.float64),
            rows,
            reducible=np.array([o.compute_dtype in _REDUCIBLE for o in operations]),
            concurrent_groups=np.array([num_groups(o) for o in operations], dtype=np.float64),
            visits=dispatch_visits(cluster, [token_routing(o) for o in operations], rows),
        ),
    )
    seconds, low, high = times.seconds, times.low, times.high
    for row, operation in enumerate(operations):
        if not reads_peers(operation):
            continue
        size = np.array([message_bytes(operation)], dtype=np.float64)
        (peer,) = peer_all_reduce(cluster, rows[row], size).tolist()
        if peer < seconds[row]:
            seconds[row], low[row], high[row] = peer, LOW * peer, HIGH * peer
    count = len(operations)
    return Estimates(seconds, low, high, ("link",) * count, ("datasheet",) * count)
