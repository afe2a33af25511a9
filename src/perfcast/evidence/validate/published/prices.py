"""Prices of all published runs at once: each different operation of a device, and of a cluster, one time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfcast.catalogs.devices import load_device
from perfcast.core.cluster import Cluster
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.training import Training
from perfcast.core.work import StepWork
from perfcast.cost.model import CostModel
from perfcast.cost.prices import price_communication
from perfcast.errors import InputError
from perfcast.evidence.validate.published.cases import PublishedCase
from perfcast.evidence.validate.published.runs import PublishedRun


@dataclass(frozen=True)
class PricedRun:
    """What one run's ranks do, with the seconds of each operation.

    Attributes:
        kernel_seconds: By operation, of kernels.
        communication_seconds: By operation, of collectives.
        provenance: What most of the compute's time rests on.
        replays_graphs: Whether the host replays CUDA graphs.
    """

    work: StepWork
    cluster: Cluster
    device: str
    training: Training
    kernel_seconds: dict[Operation, float]
    communication_seconds: dict[Operation, float]
    provenance: str = ""
    replays_graphs: bool = False


def build_works(
    cases: Sequence[PublishedCase], on_case: Callable[[], None] = lambda: None
) -> list[StepWork | None]:
    """The work of each case, None for a plan that no step can be built of; equal runs share theirs."""
    from perfcast.workload.blocks import build_step_work

    known: dict[object, StepWork | None] = {}
    works = []
    for case in cases:
        on_case()
        key = _key(case.run)
        if case.run is not None and key not in known:
            run = case.run.run
            try:
                known[key] = build_step_work(run.model, run.plan, run.training, run.sequence_length)
            except InputError:
                known[key] = None
        works.append(known.get(key))
    return works


def _key(run: PublishedRun | None) -> object:
    if run is None:
        return None
    asked = run.run
    return (asked.model, asked.plan, asked.training, asked.sequence_length)


def price_works(
    cases: Sequence[PublishedCase], works: Sequence[StepWork | None], cost_model: CostModel
) -> list[PricedRun | None]:
    """Every case with its operations priced; None where there is no work or a group fits no cluster."""
    kernels: defaultdict[str, dict[Operation, None]] = defaultdict(dict)
    collectives: defaultdict[Cluster, dict[Operation, None]] = defaultdict(dict)
    split: dict[int, tuple[list[Operation], list[Operation]]] = {}
    for case, work in zip(cases, works, strict=True):
        if work is None or case.run is None or case.catalog_device is None:
            continue
        if id(work) not in split:
            split[id(work)] = _split(work)
        mine, shared = split[id(work)]
        for device in _devices(case):
            kernels[device].update(dict.fromkeys(mine))
        collectives[case.run.cluster].update(dict.fromkeys(shared))
    by_device = {name: _price_kernels(list(found), name, cost_model) for name, found in kernels.items()}
    by_cluster = {
        cluster: _price_communication(list(found), cluster) for cluster, found in collectives.items()
    }
    priced: list[PricedRun | None] = []
    for case, work in zip(cases, works, strict=True):
        if work is None or case.run is None or case.catalog_device is None:
            priced.append(None)
            continue
        mine, shared = split[id(work)]
        tables, links = [by_device[d] for d in _devices(case)], by_cluster[case.run.cluster]
        if any(operation not in links for operation in shared):
            priced.append(None)
            continue
        kernel_seconds = {o: math.prod(t[o][0] for t in tables) ** (1 / len(tables)) for o in mine}
        priced.append(
            PricedRun(
                work,
                case.run.cluster,
                case.catalog_device,
                case.run.run.training,
                kernel_seconds,
                {operation: links[operation] for operation in shared},
                _provenance(mine, tables[0]),
                case.run.replays_graphs,
            )
        )
    return priced


def _devices(case: PublishedCase) -> list[str]:
    """Between which devices of the catalog a case's lie; mostly one."""
    slower = case.run.slower_device if case.run is not None else None
    return [name for name in (case.catalog_device, slower) if name is not None]


def _split(work: StepWork) -> tuple[list[Operation], list[Operation]]:
    found = work.operations()
    is_communication = [operation.kind is OperationKind.COLLECTIVE for operation in found]
    return (
        [o for o, shared in zip(found, is_communication, strict=True) if not shared],
        [o for o, shared in zip(found, is_communication, strict=True) if shared],
    )


def _price_kernels(
    operations: list[Operation], device: str, cost_model: CostModel
) -> dict[Operation, tuple[float, str]]:
    if not operations:
        return {}
    estimates = cost_model.estimate(operations, load_device(device))
    rows = zip(estimates.seconds.tolist(), estimates.provenance, strict=True)
    return dict(zip(operations, rows, strict=True))


def _price_communication(operations: list[Operation], cluster: Cluster) -> dict[Operation, float]:
    """Those that lie in the cluster; groups that fill it unevenly are left out."""
    try:
        if not operations:
            return {}
        estimates = price_communication(operations, cluster)
        return dict(zip(operations, estimates.seconds.tolist(), strict=True))
    except InputError:
        found: dict[Operation, float] = {}
        for operation in operations:
            try:
                found[operation] = float(price_communication([operation], cluster).seconds[0])
            except InputError:
                continue
        return found


def _provenance(operations: Sequence[Operation], seconds: dict[Operation, tuple[float, str]]) -> str:
    totals: defaultdict[str, float] = defaultdict(float)
    for operation in operations:
        value, name = seconds[operation]
        totals[name] += value
    return max(totals, key=lambda name: totals[name]) if totals else ""
