"""Prices of all published runs at once: each different operation of a device, and of a cluster, one time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from perfcast.catalogs.devices import load_device
from perfcast.core.machine.cluster import Cluster
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.training import Training
from perfcast.core.work import StepWork
from perfcast.cost.model import CostModel, Estimates
from perfcast.cost.prices import Prices, price_communication
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
        ends: Low and high of each operation's interval over its seconds.
        provenances: What each operation's price rests on.
    """

    work: StepWork
    cluster: Cluster
    device: str
    training: Training
    kernel_seconds: dict[Operation, float]
    communication_seconds: dict[Operation, float]
    provenance: str = ""
    replays_graphs: bool = False
    ends: Mapping[Operation, tuple[float, float]] = field(default_factory=dict)
    provenances: Mapping[Operation, str] = field(default_factory=dict)

    def scaled(self, seconds: Mapping[Operation, float]) -> Prices:
        """Prices of other middles, as wide as these."""
        low, high = ({o: value * self.ends[o][end] for o, value in seconds.items()} for end in (0, 1))
        return Prices(seconds, low, high, self.provenances)


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
        kernel_seconds = {o: math.prod(t[o].seconds for t in tables) ** (1 / len(tables)) for o in mine}
        priced.append(
            PricedRun(
                work,
                case.run.cluster,
                case.catalog_device,
                case.run.run.training,
                kernel_seconds,
                {operation: links[operation].seconds for operation in shared},
                _provenance(mine, tables[0]),
                case.run.replays_graphs,
                {o: tables[0][o].ends for o in mine} | {o: links[o].ends for o in shared},
                {o: tables[0][o].provenance for o in mine} | {o: links[o].provenance for o in shared},
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


class _Price(NamedTuple):
    """Of one operation.

    Attributes:
        ends: Low and high over the seconds.
    """

    seconds: float
    ends: tuple[float, float]
    provenance: str


def _price_kernels(
    operations: list[Operation], device: str, cost_model: CostModel
) -> dict[Operation, _Price]:
    if not operations:
        return {}
    return _by_operation(operations, cost_model.estimate(operations, load_device(device)))


def _by_operation(operations: list[Operation], estimates: Estimates) -> dict[Operation, _Price]:
    columns = (estimates.seconds.tolist(), estimates.seconds_low.tolist(), estimates.seconds_high.tolist())
    return {
        operation: _Price(seconds, (low / seconds, high / seconds) if seconds else (1.0, 1.0), tag)
        for operation, seconds, low, high, tag in zip(operations, *columns, estimates.provenance, strict=True)
    }


def _price_communication(operations: list[Operation], cluster: Cluster) -> dict[Operation, _Price]:
    """Those that lie in the cluster; groups that fill it unevenly are left out."""
    try:
        if not operations:
            return {}
        return _by_operation(operations, price_communication(operations, cluster))
    except InputError:
        found: dict[Operation, _Price] = {}
        for operation in operations:
            try:
                found |= _by_operation([operation], price_communication([operation], cluster))
            except InputError:
                continue
        return found


def _provenance(operations: Sequence[Operation], prices: Mapping[Operation, _Price]) -> str:
    totals: defaultdict[str, float] = defaultdict(float)
    for operation in operations:
        totals[prices[operation].provenance] += prices[operation].seconds
    return max(totals, key=lambda name: totals[name]) if totals else ""
