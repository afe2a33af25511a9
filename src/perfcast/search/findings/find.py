"""A search as a user asks for it: one or several clusters, named plans beside the winner, sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfcast.catalog.clusters import load_cluster
from perfcast.core.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_device
from perfcast.prediction.step.predict import predict_plan
from perfcast.search.findings.clusters import ClusterComparison, compare_clusters
from perfcast.search.findings.devices import find_fewest_devices
from perfcast.search.findings.explain import Difference, Explanation, explain_difference, explain_plan
from perfcast.search.findings.rival import Rival, RivalRanking, rank_rival
from perfcast.search.findings.sensitivity import Condition, Sensitivity, find_sensitivity
from perfcast.search.prices_file import PriceList
from perfcast.search.ranking.objectives import OBJECTIVES, Job, find_objective
from perfcast.search.result import RankedPlan, SearchResult
from perfcast.search.search import NUM_SIMULATED, search_plans
from perfcast.search.space.definition import Space
from perfcast.search.space.fitting import enumerate_fitting

#: What a search is doing, and how much of how much is done (0 of 0 where that is not known).
Watch = Callable[[str, int, int], None]
#: The plan of so many devices.
MakePlan = Callable[[int], Plan]
#: What the best plan is called beside named ones.
WINNER = "the winner"


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """What is searched.

    Attributes:
        clusters: Names with ``:N``, or files.
        cost_models: By device; a name or an object. Devices that are not there take the default.
        objective: A name of ``objectives.OBJECTIVES``.
        tokens, deadline_seconds: Of the whole training, for the objectives that need them.
        num_simulated: At most so many of the best are simulated; 0: all stay closed forms.
        num_processes: That evaluate plans.
    """

    model: str
    clusters: tuple[str, ...]
    global_batch_size: int
    sequence_length: int | None = None
    training: Training = field(default_factory=lambda: Training(framework="megatron"))
    cost_models: Mapping[str, str | CostModel | None] = field(default_factory=dict)
    space: Space = field(default_factory=Space)
    objective: str = next(iter(OBJECTIVES))
    tokens: float | None = None
    deadline_seconds: float | None = None
    prices: PriceList | None = None
    max_memory_fraction: float = 1.0
    min_mfu: float | None = None
    top: int = 10
    num_simulated: int = NUM_SIMULATED
    num_processes: int = 1


@dataclass(frozen=True)
class SearchFindings:
    """What was found.

    Attributes:
        explanations: Of the winner of the best cluster, then of named plans on it.
        differences: From the winner to each named plan.
        skipped: Named plans that the best cluster cannot follow, and why.
        sensitivity: None where it was not asked for.
        rival: Another searcher's order on the best cluster; None where none was asked for.
    """

    request: SearchRequest
    comparison: ClusterComparison
    explanations: tuple[Explanation, ...]
    differences: tuple[Difference, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    sensitivity: Sensitivity | None = None
    rival: RivalRanking | None = None

    @property
    def best(self) -> SearchResult:
        """Of the best cluster."""
        return self.comparison.results[0]


def find_plans(
    request: SearchRequest,
    named: Mapping[str, MakePlan] | None = None,
    *,
    with_sensitivity: bool = False,
    rival: Rival | None = None,
    watch: Watch = lambda part, done, total: None,
) -> SearchFindings:
    """Search, explain, and vary.

    Args:
        named: Plans to be explained beside the winner, by what the user called them.
        rival: Another searcher, whose choice is explained beside the winner too.

    Raises:
        PlanError: No plan on any cluster; a named plan that model or cluster cannot follow.
        InputError: Unknown names, no price of a cluster.
    """
    targets = {name: load_cluster(name) for name in request.clusters}
    if request.prices is not None:
        for name, target in targets.items():
            request.prices.of_cluster(target, name)  # what has no price is said before the search
    plans = named or {}
    _refuse_impossible(plans, [target.num_devices for target in targets.values()])
    several = len(targets) > 1

    def search(name: str) -> SearchResult:
        prefix = f"{name}: " if several else ""
        return _search(request, name, targets[name], watch=lambda part, *count: watch(prefix + part, *count))

    comparison = compare_clusters(request.clusters, search)
    name = comparison.outcomes[comparison.ranking[0]].asked
    target = best_cluster(comparison)
    name = f"{_stem(name)}:{target.num_devices}"
    result = comparison.results[0]
    other = None if rival is None else _rank_rival(request, rival, result, target)
    explanations, skipped = explain_plans(
        request, target, result.winner, {**plans, **_choice_of(other)}, watch
    )
    first = explanations[0]
    differences = tuple(explain_difference(first, other) for other in explanations[1:])
    sensitivity = _vary(request, name, target, watch) if with_sensitivity else None
    return SearchFindings(request, comparison, explanations, differences, skipped, sensitivity, other)


def _rank_rival(request: SearchRequest, rival: Rival, result: SearchResult, cluster: Cluster) -> RivalRanking:
    model = read_model(request.model).sizes

    def explain_none(degrees: tuple[int, int, int]) -> str:
        fixed = {**request.space.fixed, **dict(zip(("dp", "tp", "pp"), degrees, strict=True))}
        try:
            enumerate_fitting(
                model, cluster, resolve_device(cluster.device), request.training, request.global_batch_size,
                result.sequence_length, replace(request.space, fixed=fixed), request.max_memory_fraction,
            )  # fmt: skip
        except PlanError as error:
            return str(error)
        return "no plan with these degrees meets all demands"

    return rank_rival(rival, result, model, cluster, explain_none, request.top)


def _choice_of(rival: RivalRanking | None) -> dict[str, MakePlan]:
    """The plan with the degrees that another searcher would choose, to be explained."""
    plan = None if rival is None else rival.plans[0].plan
    if rival is None or plan is None:
        return {}
    return {f"{rival.name}'s choice": lambda num_devices: plan}


def best_cluster(comparison: ClusterComparison) -> Cluster:
    """The cluster whose winner is best, with as many devices as its plan takes."""
    asked = comparison.outcomes[comparison.ranking[0]].asked
    return _sized(asked, comparison.results[0].num_devices)


def _sized(name: str, num_devices: int) -> Cluster:
    """The cluster of a name with another number of devices."""
    return load_cluster(f"{_stem(name)}:{num_devices}")


def _stem(name: str) -> str:
    """A cluster's name without its number of devices."""
    stem, _, count = name.rpartition(":")
    return stem if count.isdecimal() else name


def _search(request: SearchRequest, name: str, cluster: Cluster, *, watch: Watch) -> SearchResult:
    if request.objective != "devices":
        return _search_size(request, name, cluster, watch)
    job = _job(request, cluster)
    find_objective(request.objective, job, resolve_device(cluster.device))  # says what is missing
    freely = replace(request, objective="time", deadline_seconds=None, num_simulated=0, top=1)

    def watching(size: Cluster) -> Watch:
        return lambda part, *count: watch(f"{size.num_devices} devices: {part}", *count)

    return find_fewest_devices(
        cluster,
        lambda count: _sized(name, count),
        lambda size: _search_size(freely, name, size, watching(size)),
        lambda size: _search_size(request, name, size, watching(size)),
        num_steps=job.num_steps, deadline_seconds=request.deadline_seconds or 0.0,
    )  # fmt: skip


def _job(request: SearchRequest, cluster: Cluster) -> Job:
    length = read_model(request.model).sequence_length(request.sequence_length)
    return Job(
        num_devices=cluster.num_devices, num_tokens=request.global_batch_size * length,
        tokens=request.tokens, deadline_seconds=request.deadline_seconds,
    )  # fmt: skip


def _search_size(request: SearchRequest, name: str, cluster: Cluster, watch: Watch) -> SearchResult:
    price = None if request.prices is None else request.prices.of_cluster(cluster, name)
    return search_plans(
        request.model, cluster, global_batch_size=request.global_batch_size,
        sequence_length=request.sequence_length, training=request.training, space=request.space,
        objective=request.objective, tokens=request.tokens, deadline_seconds=request.deadline_seconds,
        dollars_per_device_hour=price, max_memory_fraction=request.max_memory_fraction,
        min_mfu=request.min_mfu, top=request.top, num_simulated=request.num_simulated,
        cost_model=request.cost_models.get(cluster.device), on_progress=watch,
        num_processes=request.num_processes,
    )  # fmt: skip


def explain_plans(
    request: SearchRequest,
    cluster: Cluster,
    winner: RankedPlan,
    named: Mapping[str, MakePlan],
    watch: Watch = lambda part, done, total: None,
) -> tuple[tuple[Explanation, ...], tuple[tuple[str, str], ...]]:
    """Forecasts of the winner and of named plans, by the method that ranked the winner.

    Returns:
        Explanations, and the named plans that model or cluster cannot follow, with the reason.
    """
    makes: dict[str, MakePlan] = {WINNER: lambda num_devices: winner.plan, **named}
    found, skipped = [], []
    for at, (label, make) in enumerate(makes.items()):
        watch(f"explaining {label}", at, len(makes))
        try:
            forecast = predict_plan(
                request.model, cluster, make(cluster.num_devices), training=request.training,
                sequence_length=request.sequence_length, method=winner.method, reliefs=False,
                cost_model=request.cost_models.get(cluster.device),
            )  # fmt: skip
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


def _vary(request: SearchRequest, name: str, cluster: Cluster, watch: Watch) -> Sensitivity:
    """The winner of closed forms under every condition."""
    closed = replace(request, num_simulated=0, top=1)
    price = None if request.prices is None else request.prices.of_cluster(cluster, name)

    def search(condition: Condition) -> SearchResult:
        return search_plans(
            closed.model, condition.cluster, global_batch_size=condition.global_batch_size,
            sequence_length=closed.sequence_length, training=closed.training, space=closed.space,
            objective=closed.objective, tokens=closed.tokens, deadline_seconds=closed.deadline_seconds,
            dollars_per_device_hour=price, max_memory_fraction=closed.max_memory_fraction,
            min_mfu=closed.min_mfu, top=1, num_simulated=0, device=condition.device,
            cost_model=closed.cost_models.get(cluster.device), num_processes=closed.num_processes,
        )  # fmt: skip

    def tell(condition: Condition) -> None:
        factor = f" × {condition.factor:g}" if condition.factor != 1 else ""
        watch(f"sensitivity: {condition.name}{factor}", 0, 0)

    base = Condition("as it is", 1.0, cluster, resolve_device(cluster.device), closed.global_batch_size)
    return find_sensitivity(base, search, tell)
