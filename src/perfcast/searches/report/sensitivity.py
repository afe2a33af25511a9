"""How the winner changes with the network's bandwidth, the devices' memory and the batch.

Each condition is searched anew, and the winner as it is now is looked up among that search's plans: it may
still win, still be possible but slower than another, or not be possible any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.machine.hardware import Device
from perfcast.core.plan import Plan
from perfcast.errors import PlanError
from perfcast.searches.report.explain import differing_dimensions
from perfcast.searches.result import RankedPlan, SearchResult

#: What is varied, in words.
BANDWIDTH, MEMORY, BATCH = "network bandwidth", "device memory", "batch size"
BANDWIDTH_FACTORS = (0.25, 0.5, 2.0, 4.0)
MEMORY_FACTORS = (0.5, 0.75, 1.5, 2.0)
BATCH_FACTORS = (0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True)
class Condition:
    """What a job is searched under.

    Attributes:
        name: ``BANDWIDTH``, ``MEMORY`` or ``BATCH``.
        factor: Of that, over what it is.
    """

    name: str
    factor: float
    cluster: Cluster
    device: Device
    global_batch_size: int


@dataclass(frozen=True)
class SensitivityPoint:
    """The winner under one condition.

    Attributes:
        winner: None where ``reason`` says why there is none.
        changes: What the winner sets differently from the base's, without the micro-batches' number.
        kept_seconds: A step of the base's winner under this condition; None where it is not possible.
    """

    condition: Condition
    winner: RankedPlan | None
    changes: tuple[str, ...] = ()
    kept_seconds: float | None = None
    reason: str = ""

    @property
    def loss(self) -> float | None:
        """What keeping the base's winner costs: its step over the best one's, less 1."""
        if self.winner is None or self.kept_seconds is None:
            return None
        return self.kept_seconds / self.winner.step_seconds - 1


@dataclass(frozen=True)
class Sensitivity:
    """All conditions.

    Attributes:
        base: The winner as it is, timed as those of the conditions are.
        network: Levels of the cluster whose bandwidth was varied, in words.
    """

    base: RankedPlan
    network: str
    points: tuple[SensitivityPoint, ...]


Search = Callable[[Condition], SearchResult]


def find_sensitivity(
    base: Condition, search: Search, on_condition: Callable[[Condition], None] = lambda condition: None
) -> Sensitivity:
    """Search under every condition.

    Args:
        base: As it is; factor 1.
        search: Of one condition, all else equal; a ``PlanError`` says that there is no plan.
        on_condition: Told before each.

    Raises:
        PlanError: There is no plan as it is.
    """
    on_condition(base)
    winner = search(base).winner
    points = []
    for condition in list_conditions(base):
        on_condition(condition)
        try:
            found = search(condition)
        except PlanError as error:
            points.append(SensitivityPoint(condition, None, reason=str(error)))
            continue
        kept = find_step_seconds(found, _with_batch(winner.plan, condition.global_batch_size))
        points.append(SensitivityPoint(condition, found.winner, _changes(winner, found.winner), kept))
    return Sensitivity(winner, describe_network(base.cluster), tuple(points))


def list_conditions(base: Condition) -> list[Condition]:
    """Everything that is varied, one at a time; batches that are no whole number are left out."""
    found = [
        replace(base, name=BANDWIDTH, factor=factor, cluster=scale_network(base.cluster, factor))
        for factor in BANDWIDTH_FACTORS
        if base.cluster.num_devices > 1
    ]
    for factor in MEMORY_FACTORS:
        device = replace(base.device, memory_bytes=round(factor * base.device.memory_bytes))
        found.append(replace(base, name=MEMORY, factor=factor, device=device))
    for factor in BATCH_FACTORS:
        batch = factor * base.global_batch_size
        if batch == int(batch) and batch >= 1:
            found.append(replace(base, name=BATCH, factor=factor, global_batch_size=int(batch)))
    return found


def scale_network(cluster: Cluster, factor: float) -> Cluster:
    """The cluster with other links between its servers; of a single level, between its devices."""
    outer = _network_levels(cluster)
    levels = tuple(
        Level(level.name, level.size, _scale_link(level.link, factor)) if level in outer else level
        for level in cluster.levels
    )
    return replace(cluster, levels=levels)


def describe_network(cluster: Cluster) -> str:
    """Which levels ``scale_network`` scales: 'rail and spine'."""
    return " and ".join(level.name for level in _network_levels(cluster))


def _network_levels(cluster: Cluster) -> tuple[Level, ...]:
    levels = tuple(level for level in cluster.levels if level.size > 1)
    return levels[1:] or levels


def _scale_link(link: Link, factor: float) -> Link:
    return replace(
        link,
        bytes_per_second=factor * link.bytes_per_second,
        port_bytes_per_second=factor * link.port_bytes_per_second,
        ring_bytes_per_second=tuple(factor * rate for rate in link.ring_bytes_per_second),
    )


def _with_batch(plan: Plan, global_batch_size: int) -> Plan | None:
    """The plan with as many micro-batches as the batch asks for; None where it does not divide."""
    each = plan.data_parallel * plan.micro_batch_size
    if global_batch_size % each:
        return None
    return replace(plan, num_micro_batches=global_batch_size // each)


def find_step_seconds(found: SearchResult, plan: Plan | None) -> float | None:
    """The step of a plan among a search's valid ones; None where it is not there."""
    place = None if plan is None else found.place_of(plan)
    return None if place is None else float(found.evaluation.step_seconds[place])


def _changes(base: RankedPlan, winner: RankedPlan) -> tuple[str, ...]:
    differing = differing_dimensions(base.plan, winner.plan)
    differing.pop("num_micro_batches", None)
    return tuple(differing.values())
