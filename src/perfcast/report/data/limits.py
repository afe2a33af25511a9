"""What JSON holds of how far a training run can scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from perfcast.published.data_movement.curve import ScalingLimits, largest_loss
from perfcast.published.data_movement.limits import ScaledRun, ScalingAssumptions
from perfcast.report.answers import Answer


@dataclass(frozen=True, kw_only=True)
class RunData:
    """One run; what no plan ends in time has nulls.

    Attributes:
        training_flops: Of the run.
        num_parameters: Of the model that is trained best with so many.
        utilization: A fraction.
        published_utilization: A fraction; null where none is known.
        num_devices: Devices; the model takes parts of one too.
        plan: Degrees of the plan.
        step_seconds: Of a step, in seconds.
        largest_loss: What the step waits for most.
    """

    training_flops: float
    num_parameters: float
    utilization: float
    published_utilization: float | None
    num_devices: float | None
    plan: Mapping[str, float] | None
    step_seconds: float | None
    largest_loss: str


@dataclass(frozen=True, kw_only=True)
class LimitsData(Answer):
    """How large a training run can be before moving data costs its utilization.

    Attributes:
        assumptions: Free variables of the model, by name.
        base_utilization: Of small runs; a fraction.
        largest_flops_keeping: Share of that → flops of the largest run that keeps it; null: any.
        last_flops: Beyond which no plan ends a run in time; null: none.
        latency_wall_flops: At which launches alone take all of it; null: none.
        curve: Runs, the smallest first.
    """

    table: ClassVar[str] = "curve"

    assumptions: Mapping[str, float]
    base_utilization: float
    largest_flops_keeping: Mapping[str, float | None]
    last_flops: float | None
    latency_wall_flops: float | None
    curve: tuple[RunData, ...]


def data_of(
    found: ScalingLimits, assumptions: ScalingAssumptions, rows: Sequence[tuple[ScaledRun, float | None]]
) -> LimitsData:
    """Everything that was found."""
    return LimitsData(
        assumptions=asdict(assumptions),
        base_utilization=found.base_utilization,
        largest_flops_keeping={str(share): _finite(flops) for share, flops in found.kept_flops},
        last_flops=_finite(found.last_flops),
        latency_wall_flops=_finite(found.latency_wall_flops),
        curve=tuple(_run(*row) for row in rows),
    )


def _finite(flops: float) -> float | None:
    return flops if math.isfinite(flops) else None


def _run(scaled: ScaledRun, published: float | None) -> RunData:
    return RunData(
        training_flops=scaled.run.flops,
        num_parameters=scaled.run.num_parameters,
        utilization=scaled.utilization,
        published_utilization=published,
        num_devices=scaled.plan.num_devices if scaled.plan else None,
        plan=asdict(scaled.plan) if scaled.plan else None,
        step_seconds=float(scaled.time.seconds) if scaled.time else None,
        largest_loss=largest_loss(scaled),
    )
