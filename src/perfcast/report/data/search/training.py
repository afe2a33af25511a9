"""What JSON holds of a search for training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.forecast.fit import all_fit, first_said
from perfcast.core.plan import Plan
from perfcast.core.plans.text import format_plan
from perfcast.core.program import StepProgram
from perfcast.core.training import Training
from perfcast.report.answers import Answer, view
from perfcast.report.data.search.explained import (
    BaselineData,
    DifferenceData,
    ExplanationData,
    SensitivityData,
    baseline_data,
    difference_data,
    explanation_data,
    sensitivity_data,
)
from perfcast.report.data.search.plans import PlanData, plan_data, plan_figures
from perfcast.searches.report.clusters import ClusterOutcome
from perfcast.searches.report.compose import SearchReport
from perfcast.searches.report.variants import differing_items
from perfcast.searches.result import SearchResult


@dataclass(frozen=True, kw_only=True)
class RankedData:
    """A plan with its rank, 1 for the best.

    Attributes:
        rank: Of the kinds of plans shown, from 1; others of its kind are under variants.
        command: The perfcast predict that forecasts it with the same time and memory.
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

    rank: int
    command: str
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


@dataclass(frozen=True, kw_only=True)
class VariantData:
    """Another plan of the kind of one that is ranked.

    Attributes:
        rank: Of the kind, from 1.
        is_alike: Whether the interval cannot tell it from the ranked one.
        differences: What it sets differently.
        command: The perfcast predict that forecasts it with the same time and memory.
        figures: The plan and its figures.
    """

    rank: int
    is_alike: bool
    differences: tuple[str, ...]
    command: str
    figures: PlanData


@dataclass(frozen=True, kw_only=True)
class SeparationData:
    """Two plans whose order is not sure.

    Attributes:
        first_rank: Rank.
        second_rank: Rank.
        difference_seconds: Seconds that the second's step takes longer.
        difference_seconds_low: Seconds; low end of a 90 % interval.
        difference_seconds_high: Seconds; high end of a 90 % interval.
        measurements: What would separate them, the most telling first.
    """

    first_rank: int
    second_rank: int
    difference_seconds: float
    difference_seconds_low: float
    difference_seconds_high: float
    measurements: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ResultData:
    """What was found on one cluster.

    Attributes:
        cluster: Catalog name.
        device: Catalog name.
        num_devices: Devices of the plans.
        cost_model: What priced the operations.
        num_plans: Plans enumerated.
        num_valid: Plans that meet all constraints.
        num_simulated: Plans simulated event by event.
        num_operations: Different operations that were priced.
        excluded: Plans that each constraint removed.
        ranked: The best plan of each kind, best first.
        variants: Other plans of those kinds that were weighed.
        front: Plans that none beats in time, cost and headroom at once, fastest first.
        separations: Plans that cannot be told from the first.
        assumptions: What was taken for granted.
        num_steps: Steps of the whole training; null where its tokens are not known.
    """

    cluster: str
    device: str
    num_devices: int
    cost_model: str
    num_plans: int
    num_valid: int
    num_simulated: int
    num_operations: int
    excluded: dict[str, int]
    ranked: tuple[RankedData, ...]
    variants: tuple[VariantData, ...]
    front: tuple[PlanData, ...]
    separations: tuple[SeparationData, ...]
    assumptions: tuple[str, ...]
    num_steps: int | None


@dataclass(frozen=True, kw_only=True)
class OutcomeData:
    """What became of one cluster.

    Attributes:
        asked: As the user named it.
        reason: Why it has no plan; null where it has.
        result: Of one cluster.
    """

    asked: str
    reason: str | None
    result: ResultData | None


@dataclass(frozen=True, kw_only=True)
class SkippedData:
    """A named plan that the best cluster cannot follow.

    Attributes:
        label: As the user named it.
        reason: Why.
    """

    label: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class SearchData(Answer):
    """What a search for training found.

    Attributes:
        fits: Whether the device's memory holds it; null where that is not known; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: As asked for.
        objective: What the plans are ranked by.
        sequence_length: Tokens.
        global_batch_size: Sequences of a step.
        training: How numbers are kept, and by whose program.
        program: What runs: its framework, whether the model's own modules are captured and compiled, and
            which option changes that.
        defaults: What was chosen of precision and sequence where nothing was asked for, in words.
        best_cluster: Catalog name and devices.
        best_plan: As --plan takes it, with the micro-batch's size.
        best_command: The perfcast predict that forecasts it with the same time and memory.
        clusters: In the order asked for.
        ranking: Clusters with a plan, best first.
        explanations: Of the winner of the best cluster, then of named plans.
        differences: From the winner to each named plan.
        skipped: Named plans that the best cluster cannot follow.
        sensitivity: How the winner changes.
        baseline: Another searcher's order of plans on the best cluster.
        timings: Seconds that the search took on this machine, by cluster and by its part; no two runs are
            alike in them.
    """

    table: ClassVar[str] = "clusters[asked].result.ranked"

    fits: bool | None
    verdict: str
    model: str
    objective: str
    sequence_length: int
    global_batch_size: int
    training: Training
    program: StepProgram
    defaults: tuple[str, ...]
    best_cluster: str
    best_plan: str
    best_command: str
    clusters: tuple[OutcomeData, ...]
    ranking: tuple[str, ...]
    explanations: tuple[ExplanationData, ...]
    differences: tuple[DifferenceData, ...]
    skipped: tuple[SkippedData, ...]
    sensitivity: SensitivityData | None
    baseline: BaselineData | None
    timings: dict[str, dict[str, float]]


def data_of(found: SearchReport) -> SearchData:
    """Everything that was found."""
    best = found.best
    outcomes = found.comparison.outcomes
    return view(
        SearchData,
        best,
        fits=all_fit(found.fits),
        verdict=first_said(found.fits),
        best_cluster=f"{best.cluster}:{best.num_devices}",
        best_plan=format_plan(best.winner.plan),
        best_command=best.command(best.winner),
        clusters=tuple(_outcome(outcome) for outcome in outcomes),
        ranking=tuple(outcomes[at].asked for at in found.comparison.ranking),
        explanations=tuple(explanation_data(explanation) for explanation in found.explanations),
        differences=tuple(difference_data(difference) for difference in found.differences),
        skipped=tuple(SkippedData(label=label, reason=reason) for label, reason in found.skipped),
        sensitivity=None if found.sensitivity is None else sensitivity_data(found.sensitivity),
        timings={
            outcome.asked: dict(outcome.result.seconds_by_part)
            for outcome in outcomes
            if outcome.result is not None
        },
        baseline=None if found.baseline is None else baseline_data(found.baseline),
    )


def _outcome(outcome: ClusterOutcome) -> OutcomeData:
    result = None if outcome.result is None else _result(outcome.result)
    return OutcomeData(asked=outcome.asked, reason=outcome.reason or None, result=result)


def _result(result: SearchResult) -> ResultData:
    return view(
        ResultData,
        result,
        ranked=tuple(
            view(RankedData, plan, rank=place, command=result.command(plan), **plan_figures(plan))
            for place, plan in enumerate(result.ranked, 1)
        ),
        variants=tuple(
            VariantData(
                rank=one.of + 1,
                is_alike=one.is_alike,
                differences=tuple(differing_items(result.ranked[one.of].plan, one.plan.plan)),
                command=result.command(one.plan),
                figures=plan_data(one.plan),
            )
            for one in result.variants
        ),
        front=tuple(plan_data(plan) for plan in result.front),
        separations=tuple(
            view(SeparationData, one, first_rank=one.first + 1, second_rank=one.second + 1)
            for one in result.separations
        ),
    )
