"""Step times of a plan and of changed ones: the closed form of all of them at once, on one cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.forecast.plan import CAUSES
from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.prediction.plan.cluster import cluster_by_name, cluster_of_device
from perfcast.prediction.step.columns import evaluate_steps
from perfcast.prediction.step.constants import load_step_constants
from perfcast.workload.plan_columns.layers import Setting


@dataclass(frozen=True, slots=True)
class PlanTime:
    """A step of one plan: its mean seconds over all ranks by cause add up to the whole."""

    step_seconds: float
    seconds_by_cause: Mapping[str, float]


def cluster_of_plan(plan: Plan, device: Device, cluster: str | Cluster | None) -> Cluster:
    """What a plan is timed on: the user's own cluster, or the catalog's of the device; one has no links.

    Raises:
        PlanError: A cluster of other devices, or none that is known.
        UnknownNameError: No such device or cluster.
    """
    if isinstance(cluster, Cluster):
        return cluster
    if cluster is not None:
        return cluster_by_name(cluster, plan.world_size, device.name)
    if plan.world_size == 1:
        level = Level("device", 1, Link("none", 0.0, float("inf")))
        return Cluster(device.name, device.title, device.name, (level,))
    return cluster_of_device(device.name, plan.world_size)


def time_plans(
    model: Transformer,
    plans: Sequence[tuple[Plan, Training]],
    sequence_length: int,
    device: Device,
    cluster: Cluster,
    cost_model: CostModel,
) -> list[PlanTime | PlanError]:
    """Steps of some plans, each by the framework that runs it; in its place, why one has no time."""
    found: dict[int, PlanTime | PlanError] = {}
    for training in dict.fromkeys(training for _, training in plans):
        rows = [at for at, (_, own) in enumerate(plans) if own == training]
        setting = Setting(model, cluster, training, sequence_length)
        times = _time_table(setting, [plans[at][0] for at in rows], device, cost_model)
        found |= dict(zip(rows, times, strict=True))
    return [found[at] for at in range(len(plans))]


def _time_table(
    setting: Setting, plans: Sequence[Plan], device: Device, cost_model: CostModel
) -> Iterator[PlanTime | PlanError]:
    """All at once; where one cannot be, those of either half."""
    try:
        steps, _ = evaluate_steps(setting, to_table(plans), device, cost_model, load_step_constants())
    except PlanError as error:
        if len(plans) == 1:
            yield error
            return
        for half in (plans[: len(plans) // 2], plans[len(plans) // 2 :]):
            yield from _time_table(setting, half, device, cost_model)
        return
    for seconds, causes in zip(steps.step_seconds.tolist(), steps.seconds_by_cause.T.tolist(), strict=True):
        yield PlanTime(seconds, dict(zip(CAUSES, causes, strict=True)))
