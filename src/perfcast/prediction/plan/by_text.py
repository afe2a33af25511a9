"""A plan as a text says it, on a cluster as it is named: both made to agree with each other and the batch."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.machine.cluster import Cluster
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.plans.choice import choose_plan, implied_devices
from perfcast.core.plans.text import parse_plan
from perfcast.errors import PlanError
from perfcast.prediction.model import Model, read_model
from perfcast.prediction.plan.cluster import cluster_by_name


@dataclass(frozen=True, kw_only=True)
class AskedPlan:
    """A plan that is complete, and where it runs.

    Attributes:
        recompute_is_open: Whether the text leaves open what is recomputed.
        notes: What was chosen, in words.
    """

    plan: Plan
    cluster: str | Cluster
    recompute_is_open: bool = False
    notes: tuple[str, ...] = ()


def read_asked_plan(
    plan: str | Plan,
    cluster: str | Cluster,
    model: Model,
    *,
    mode: Mode,
    batch_size: int | None,
    micro_batch_size: int | None,
) -> AskedPlan:
    """The plan that is asked for: completed where it is a text, as it stands where it is one.

    Raises:
        PlanError: A text that is no plan; degrees, devices and batch that do not agree.
    """
    if isinstance(plan, Plan):
        given = {"batch_size": (batch_size, plan.global_batch_size)}
        given["micro_batch_size"] = (micro_batch_size, plan.micro_batch_size)
        for name, (asked, own) in given.items():
            if asked not in (None, own):
                raise PlanError(f"{name}={asked}, but the plan has {own}")
        return AskedPlan(plan=plan, cluster=cluster)
    values = parse_plan(plan, "plan")
    if isinstance(cluster, str):
        needed = implied_devices(values)
        counts_itself = ":" in cluster or needed == 1
        cluster = cluster_by_name(cluster, None if counts_itself else needed)
    complete, notes = choose_plan(
        values,
        cluster.num_devices,
        mode=mode,
        batch_size=batch_size,
        micro_batch_size=micro_batch_size,
        is_captured=not read_model(model).has_sizes,
    )
    return AskedPlan(
        plan=complete, cluster=cluster, recompute_is_open="recompute" not in values, notes=tuple(notes)
    )
