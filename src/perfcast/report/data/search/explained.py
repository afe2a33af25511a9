"""What JSON holds of why a plan wins, and of what would change that."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.plans.text import format_plan
from perfcast.report.answers import view
from perfcast.report.data.search.plans import PlanData, by_cause, plan_data
from perfcast.searches.report.baseline import BaselineRanking
from perfcast.searches.report.explain import Change, Difference, Explanation
from perfcast.searches.report.sensitivity import Sensitivity, SensitivityPoint


@dataclass(frozen=True, kw_only=True)
class ExplanationData:
    """Where step and memory of a plan go.

    Attributes:
        label: What the plan is called.
        option: The plan as --plan and --compare take it, with the micro-batch's size.
        method: simulated or closed_form.
        step_seconds: Seconds, best estimate.
        step_seconds_low: Seconds; low end of a 90 % interval.
        step_seconds_high: Seconds; high end of a 90 % interval.
        mfu: Model flops over peak flops; fraction.
        seconds_by_cause: Seconds by cause, mean over all ranks; they add up to the step.
        bytes_by_category: Bytes of the worst stage at its peak, by category.
        fits: Whether the device's memory holds it; null where that is not known.
    """

    label: str
    option: str
    method: str
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    mfu: float
    seconds_by_cause: dict[str, float]
    bytes_by_category: dict[str, int]
    fits: bool | None


@dataclass(frozen=True, kw_only=True)
class ChangeData:
    """One amount of two plans.

    Attributes:
        name: Cause or category.
        before: Seconds or bytes of the first plan.
        after: Seconds or bytes of the second plan.
        difference: What the second has more.
        because: Dimensions that it depends on and the plans differ in.
    """

    name: str
    before: float
    after: float
    difference: float
    because: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DifferenceData:
    """From one plan to another.

    Attributes:
        first: Label.
        second: Label.
        dimensions: What is set differently.
        step_seconds: Seconds that the second's step takes longer.
        causes: Of the step, the largest difference first.
        categories: Of the memory, the largest difference first.
        sentences: The same in words.
    """

    first: str
    second: str
    dimensions: tuple[str, ...]
    step_seconds: float
    causes: tuple[ChangeData, ...]
    categories: tuple[ChangeData, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PointData:
    """The winner under one condition.

    Attributes:
        name: network bandwidth, device memory or batch size.
        factor: Of that, over what it is.
        winner: Null where no plan is left.
        changes: What it sets differently from the winner as it is.
        kept_step_seconds: Seconds of a step with the winner as it is; null where it is not
            possible.
        loss: That over the best plan's step, less 1; fraction.
        reason: Why no plan is left.
    """

    name: str
    factor: float
    winner: PlanData | None
    changes: tuple[str, ...]
    kept_step_seconds: float | None
    loss: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class SensitivityData:
    """How the winner changes.

    Attributes:
        network: Levels of the cluster whose bandwidth was varied.
        points: One condition each.
    """

    network: str
    base: PlanData
    points: tuple[PointData, ...]


@dataclass(frozen=True, kw_only=True)
class BaselinePlanData:
    """Degrees, and both searchers' times.

    Attributes:
        data_parallel: Degree; no unit.
        tensor_parallel: Degree; no unit.
        pipeline_parallel: Degree; no unit.
        baseline_step_seconds: Seconds of a step by the other searcher's own formulas.
        option: Best plan of this search with these degrees, as --plan takes it; null where none is
            valid.
        step_seconds: Seconds of a step of that plan by closed form.
    """

    data_parallel: int
    tensor_parallel: int
    pipeline_parallel: int
    baseline_step_seconds: float
    option: str | None
    step_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class BaselineData:
    """Another searcher's order of plans on the best cluster.

    Attributes:
        name: Of the searcher.
        num_plans: That it weighed.
        reason: Why no plan of this search has the degrees of its first.
        plans: Its first plans, best first.
    """

    name: str
    num_plans: int
    reason: str | None
    plans: tuple[BaselinePlanData, ...]


def explanation_data(explanation: Explanation) -> ExplanationData:
    """Where step and memory of a plan go."""
    forecast = explanation.forecast
    return view(
        ExplanationData,
        forecast,
        label=explanation.label,
        option=format_plan(explanation.plan),
        seconds_by_cause=by_cause(explanation.seconds_by_cause),
        bytes_by_category=dict(explanation.bytes_by_category),
        fits=None if forecast.memory is None else forecast.memory.fits,
    )


def difference_data(difference: Difference) -> DifferenceData:
    """From one plan to another."""
    return view(
        DifferenceData,
        difference,
        first=difference.first.label,
        second=difference.second.label,
        step_seconds=difference.seconds,
        causes=tuple(_change(change) for change in difference.causes),
        categories=tuple(_change(change) for change in difference.categories),
    )


def _change(change: Change) -> ChangeData:
    return view(ChangeData, change)


def sensitivity_data(found: Sensitivity) -> SensitivityData:
    """How the winner changes."""
    points = tuple(_point(point) for point in found.points)
    return SensitivityData(network=found.network, base=plan_data(found.base), points=points)


def _point(point: SensitivityPoint) -> PointData:
    return view(
        PointData,
        point,
        name=point.condition.name,
        factor=point.condition.factor,
        winner=None if point.winner is None else plan_data(point.winner),
        kept_step_seconds=point.kept_seconds,
        reason=point.reason or None,
    )


def baseline_data(baseline: BaselineRanking) -> BaselineData:
    """Another searcher's order."""
    plans = tuple(
        view(
            BaselinePlanData,
            one,
            baseline_step_seconds=one.baseline_seconds,
            option=None if one.plan is None else format_plan(one.plan),
        )
        for one in baseline.plans
    )
    return view(BaselineData, baseline, reason=baseline.reason or None, plans=plans)
