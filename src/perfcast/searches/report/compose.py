"""One or several clusters searched, the winner explained beside named plans and a baseline, and varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.forecast.fit import Fit
from perfcast.core.machine.cluster import Cluster
from perfcast.errors import PlanError
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_device
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.predict import predict_step
from perfcast.searches.evaluation.known import Known, KnownSteps
from perfcast.searches.report.baseline import Baseline, BaselineRanking, rank_baseline
from perfcast.searches.report.clusters import ClusterComparison, compare_clusters
from perfcast.searches.report.devices import find_fewest_devices
from perfcast.searches.report.explain import Difference, Explanation, explain_difference, explain_plan
from perfcast.searches.report.sensitivity import (
    BANDWIDTH,
    BATCH,
    Condition,
    Sensitivity,
    find_sensitivity,
)
from perfcast.searches.request import MakePlan, SearchRequest
from perfcast.searches.resolve import Progress, cluster_stem, ignore_progress, resolve_search
from perfcast.searches.result import RankedPlan, SearchResult
from perfcast.searches.search import search_plans
from perfcast.searches.space.fitting import enumerate_fitting

#: What the best plan is called beside named ones.
WINNER = "the winner"


@dataclass(frozen=True)
class SearchReport:
    """The best plans of a request, on each cluster, and why the winner wins.

    Attributes:
        explanations: Of the winner of the best cluster, then of named plans on it.
        differences: From the winner to each named plan.
        skipped: Named plans that the best cluster cannot follow, and why.
        sensitivity: None where it was not asked for.
        baseline: Another searcher's order on the best cluster; None where none was asked for.
    """

    request: SearchRequest
    comparison: ClusterComparison
    explanations: tuple[Explanation, ...]
    differences: tuple[Difference, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    sensitivity: Sensitivity | None = None
    baseline: BaselineRanking | None = None

    @property
    def best(self) -> SearchResult:
        """Of the best cluster."""
        return self.comparison.results[0]

    @property
    def fits(self) -> tuple[Fit | None, ...]:
        """Whether the memory holds the winner and each named plan; None where that is not known."""
        found = ((each.label, each.forecast.fit) for each in self.explanations)
        return tuple(None if fit is None else replace(fit, of=label) for label, fit in found)


def compose_report(request: SearchRequest, on_progress: Progress = ignore_progress) -> SearchReport:
    """Search every cluster, explain the winner, and vary what it depends on.

    Raises:
        PlanError: No plan on any cluster; a named plan that model or cluster cannot follow.
        InputError: Unknown names, no price of a cluster.
    """
    request = replace(request, model=read_model(request.model))
    targets = {name: load_cluster(name) for name in request.clusters}
    if request.prices is not None:
        for name, target in targets.items():
            request.prices.of_cluster(target, name)  # what has no price is said before the search
    _refuse_impossible(request.named, [target.num_devices for target in targets.values()])
    several = len(targets) > 1

    def search(name: str) -> SearchResult:
        prefix = f"{name}: " if several else ""
        return _search(request, name, targets[name], lambda part, *count: on_progress(prefix + part, *count))

    comparison = compare_clusters(request.clusters, search)
    name = comparison.outcomes[comparison.ranking[0]].asked
    target = best_cluster(comparison)
    name = f"{cluster_stem(name)}:{target.num_devices}"
    result = comparison.results[0]
    other = None if request.baseline is None else _rank_baseline(request, request.baseline, result, target)
    named = {**request.named, **_choice_of(other)}
    explanations, skipped = explain_plans(request, target, result.winner, named, on_progress)
    first = explanations[0]
    differences = tuple(explain_difference(first, other) for other in explanations[1:])
    sensitivity = _vary(request, name, target, result, on_progress) if request.with_sensitivity else None
    return SearchReport(request, comparison, explanations, differences, skipped, sensitivity, other)


def _rank_baseline(
    request: SearchRequest, baseline: Baseline, result: SearchResult, cluster: Cluster
) -> BaselineRanking:
    model = read_model(request.model).sizes

    def explain_none(degrees: tuple[int, int, int]) -> str:
        fixed = {**request.space.fixed, **dict(zip(("dp", "tp", "pp"), degrees, strict=True))}
        try:
            enumerate_fitting(
                model, cluster, resolve_device(cluster.device), request.training, request.global_batch_size,
                result.sequence_length, replace(request.runnable_space, fixed=fixed),
                request.max_memory_fraction,
            )  # fmt: skip
        except PlanError as error:
            return str(error)
        return "no plan with these degrees meets all demands"

    return rank_baseline(baseline, result, model, cluster, explain_none, request.top)


def _choice_of(baseline: BaselineRanking | None) -> dict[str, MakePlan]:
    """The plan with the degrees that another searcher would choose, to be explained."""
    plan = None if baseline is None else baseline.plans[0].plan
    if baseline is None or plan is None:
        return {}
    return {f"{baseline.name}'s choice": lambda num_devices: plan}


def best_cluster(comparison: ClusterComparison) -> Cluster:
    """The cluster whose winner is best, with as many devices as its plan takes."""
    asked = comparison.outcomes[comparison.ranking[0]].asked
    return _sized(asked, comparison.results[0].num_devices)


def _sized(name: str, num_devices: int) -> Cluster:
    """The cluster of a name with another number of devices."""
    return load_cluster(f"{cluster_stem(name)}:{num_devices}")


def _search(request: SearchRequest, name: str, cluster: Cluster, on_progress: Progress) -> SearchResult:
    if request.objective != "devices":
        return search_plans(request, cluster, asked=name, on_progress=on_progress)
    job = resolve_search(request, cluster, asked=name).job  # says what is missing
    freely = replace(request, objective="time", deadline_seconds=None, num_simulated=0, top=1)

    def search_size(asked: SearchRequest, size: Cluster) -> SearchResult:
        return search_plans(
            asked,
            size,
            asked=name,
            on_progress=lambda part, *count: on_progress(f"{size.num_devices} devices: {part}", *count),
        )

    return find_fewest_devices(
        cluster,
        lambda count: _sized(name, count),
        lambda size: search_size(freely, size),
        lambda size: search_size(request, size),
        num_steps=job.num_steps,
        deadline_seconds=request.deadline_seconds or 0.0,
    )


def explain_plans(
    request: SearchRequest,
    cluster: Cluster,
    winner: RankedPlan,
    named: Mapping[str, MakePlan],
    on_progress: Progress = ignore_progress,
) -> tuple[tuple[Explanation, ...], tuple[tuple[str, str], ...]]:
    """Forecasts of the winner and of named plans, by the method that ranked the winner.

    Returns:
        Explanations, and the named plans that model or cluster cannot follow, with the reason.
    """
    makes: dict[str, MakePlan] = {WINNER: lambda num_devices: winner.plan, **named}
    found, skipped = [], []
    for at, (label, make) in enumerate(makes.items()):
        on_progress(f"explaining {label}", at, len(makes))
        try:
            forecast = predict_step(
                PlanRequest(
                    model=request.model,
                    cluster=cluster,
                    plan=make(cluster.num_devices),
                    training=request.training,
                    sequence_length=request.sequence_length,
                    method=winner.method,
                    recommendations=False,
                    cost_model=request.cost_models.get(cluster.device),
                )
            )
        except PlanError as error:
            if label == WINNER:
                raise
            skipped.append((label, str(error)))
            continue
        found.append(explain_plan(forecast, label))
    return tuple(found), tuple(skipped)


def _refuse_impossible(named: Mapping[str, MakePlan], device_counts: Sequence[int]) -> None:
    """Say before the search which named plan no cluster can follow.

    Raises:
        PlanError: Its degrees divide the devices of none.
    """
    for label, make in named.items():
        reasons = []
        for count in device_counts:
            try:
                make(count)
            except PlanError as error:
                reasons.append(str(error))
        if len(reasons) == len(device_counts):
            raise PlanError(f"--compare {label}: {reasons[0]}")


def _vary(
    request: SearchRequest, name: str, cluster: Cluster, result: SearchResult, on_progress: Progress
) -> Sensitivity:
    """The winner of closed forms under every condition; steps that stay the same are those of ``result``."""
    closed = replace(request, num_simulated=0, top=1)
    steps = [KnownSteps(result.evaluation)]

    def search(condition: Condition) -> SearchResult:
        varied = replace(closed, global_batch_size=condition.global_batch_size)
        network = condition.factor if condition.name == BANDWIDTH else 1.0
        batch = condition.factor if condition.name == BATCH else 1.0
        known = Known(tuple(steps), network, batch)
        found = search_plans(varied, condition.cluster, asked=name, device=condition.device, known=known)
        if condition.factor != 1:
            steps.append(KnownSteps(found.evaluation, network, batch))
        return found

    def tell(condition: Condition) -> None:
        factor = f" × {condition.factor:g}" if condition.factor != 1 else ""
        on_progress(f"sensitivity: {condition.name}{factor}", 0, 0)

    base = Condition("as it is", 1.0, cluster, resolve_device(cluster.device), closed.global_batch_size)
    return find_sensitivity(base, search, tell)
