"""What JSON holds of a plan that a search ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfcast.core.forecast.plan import CAUSES
from perfcast.core.plan import Plan
from perfcast.core.plans.text import format_plan
from perfcast.report.answers import view
from perfcast.searches.result import RankedPlan


@dataclass(frozen=True, kw_only=True)
class PlanData:
    """A plan and its figures.

    Attributes:
        option: The plan as --plan and --compare take it, with the micro-batch's size.
        method: simulated or closed_form.
        step_seconds: Seconds, best estimate.
        step_seconds_low: Seconds; low end of a 90 % interval.
        step_seconds_high: Seconds; high end of a 90 % interval.
        seconds_by_cause: Seconds by cause, mean over all ranks; they add up to the step.
        tokens_per_second: Tokens per second of all devices.
        tokens_per_second_per_device: Tokens per second of one device.
        mfu: Model flops over peak flops; fraction.
        peak_memory_bytes: Bytes allocated on the worst rank.
        device_memory_bytes: Bytes of the device, with what the allocator and the driver hold.
        memory_capacity_bytes: Bytes that a device has.
        headroom_bytes: Bytes that are left.
        device_watts: Watts of a device with its share of the server, mean; null where no rated
            power is known.
        joules_per_token: Joules.
        dollars_per_device_hour: Dollars per device and hour; null without a price.
        dollars_per_token: Dollars; null without a price.
        objective_value: Of the objective, in its unit (seconds, tokens per second, dollars,
            joules).
    """

    option: str
    plan: Plan
    method: str
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    seconds_by_cause: dict[str, float]
    tokens_per_second: float
    tokens_per_second_per_device: float
    mfu: float
    peak_memory_bytes: float
    device_memory_bytes: float
    memory_capacity_bytes: float
    headroom_bytes: float
    device_watts: float | None
    joules_per_token: float | None
    dollars_per_device_hour: float | None
    dollars_per_token: float | None
    objective_value: float


def plan_data(plan: RankedPlan) -> PlanData:
    """A plan and its figures."""
    return view(PlanData, plan, **plan_figures(plan))


def plan_figures(plan: RankedPlan) -> dict[str, Any]:
    """What has another name than on the plan."""
    return {
        "option": format_plan(plan.plan),
        "seconds_by_cause": by_cause(plan.seconds_by_cause),
        "peak_memory_bytes": plan.peak_bytes,
        "device_memory_bytes": plan.device_bytes,
        "memory_capacity_bytes": plan.capacity_bytes,
        "objective_value": plan.value,
    }


def by_cause(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of the causes that take any, in the order of ``CAUSES``."""
    return {cause: float(seconds[cause]) for cause in CAUSES if seconds.get(cause)}
