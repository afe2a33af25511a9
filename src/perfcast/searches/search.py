"""The best plan for a model, a cluster and a goal: every plan by formula, the best ones event by event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from perfcast.catalogs.runs import load_run_figures
from perfcast.core.arrays import Floats
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.garbage import garbage_collection_paused
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import Method
from perfcast.core.plans.table import PlanTable
from perfcast.cost.prices import Prices
from perfcast.memory_use.footprint import FootprintColumns, footprint_columns
from perfcast.prediction.request.command import name_of_cost_model
from perfcast.searches.assumptions import assumptions_of
from perfcast.searches.evaluation.evaluate import Evaluation, evaluate_plans
from perfcast.searches.evaluation.fewest_layers import MARGIN, Weigher, with_fewest_layers
from perfcast.searches.evaluation.known import Known
from perfcast.searches.ranking.constraints import Constraint, apply_constraints
from perfcast.searches.ranking.kinds import Group, group_by_formula, group_simulated, kinds_of
from perfcast.searches.ranking.make_simulator import make_simulator
from perfcast.searches.ranking.objectives import order_of, watts_of_devices
from perfcast.searches.ranking.pareto import pareto_front
from perfcast.searches.ranking.separate import separate, tell_apart
from perfcast.searches.ranking.shortlist import Shortlist, make_shortlist
from perfcast.searches.ranking.simulator import Simulated
from perfcast.searches.request import SearchRequest
from perfcast.searches.resolve import Progress, ResolvedSearch, cluster_stem, ignore_progress, resolve_search
from perfcast.searches.result import RankedPlan, SearchResult, Separation, Variant
from perfcast.searches.space.fitting import Fitting, enumerate_fitting
from perfcast.simulate.passes import PASSES_OF_SEARCH
from perfcast.units import format_duration

#: Fewer plans than this are evaluated by one process: starting another takes longer.
_PLANS_WORTH_A_PROCESS = 20_000


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """Valid plans with the figures that objectives take.

    Attributes:
        num_plans: Enumerated.
        excluded: By the words of each constraint.
        watts: Of a device, [n].
        values: Of the objective, [n].
    """

    evaluation: Evaluation
    num_plans: int
    excluded: Mapping[str, int]
    watts: Floats
    values: Floats


@garbage_collection_paused()
def search_plans(
    request: SearchRequest,
    cluster: Cluster,
    *,
    asked: str = "",
    device: Device | None = None,
    known: Known | None = None,
    on_progress: Progress = ignore_progress,
) -> SearchResult:
    """Find the best plan of the request's space on one cluster.

    Args:
        cluster: That is searched, of those of the request or of another size.
        asked: What the request calls the cluster, by which its price is found.
        device: In place of the cluster's.
        known: What the job's plans take where one quantity of it is another; on another network or with
            another batch the result holds those alone that may win, and no front.
        on_progress: Told what is done: part, done, all of it.

    Raises:
        InputError: Unknown names, limits that mean nothing, an objective without what it needs.
        PlanError: No plan is left; names the demand that excludes everything.
    """
    search = resolve_search(request, cluster, asked=asked, device=device, on_progress=on_progress)
    found = _evaluate(search, known)
    found, simulated, prices = _rank(search, found)
    with search.part("separate"):
        groups = _groups(search, found, simulated, prices)
        separations = _separations(search, groups, simulated, prices)
    with search.part("front"):
        front = _front(search, found, simulated) if known is None else ()
    ranked = _detailed(search, found, simulated, [group.first for group in groups])
    evaluation, asked_cost = found.evaluation, request.cost_models.get(cluster.device)
    return SearchResult(
        model=search.model.name,
        cluster=cluster.name,
        device=search.device.name,
        num_devices=cluster.num_devices,
        training=request.training,
        program=search.program,
        sequence_length=search.sequence_length,
        global_batch_size=request.global_batch_size,
        cost_model=search.cost_model.name,
        objective=request.objective,
        asked_cluster=f"{cluster_stem(asked or cluster.name)}:{cluster.num_devices}",
        asked_cost_model=None if asked_cost is None else name_of_cost_model(asked_cost),
        ranked=ranked,
        front=front,
        separations=separations,
        excluded=found.excluded,
        num_plans=found.num_plans,
        num_valid=len(evaluation),
        num_simulated=len(simulated),
        num_operations=evaluation.num_operations,
        num_steps=None if request.tokens is None else search.job.num_steps,
        seconds_by_part=search.seconds_by_part,
        variants=_variants(search, found, simulated, groups),
        evaluation=evaluation,
        assumptions=assumptions_of(search, simulated, evaluation),
        defaults=search.defaults,
    )


def _evaluate(search: ResolvedSearch, known: Known | None) -> _Evaluated:
    """Every plan: first whether it fits and its groups lie in the cluster, then its time."""
    found = _fitting(search)
    search.on_progress("evaluate", 0, len(found.plans))
    with search.part("evaluate"):
        if known is None or not _may_leave_out(search, known):
            evaluation = _evaluated(search, found.plans, found.memory)
        else:
            most = search.request.max_memory_fraction * search.device.memory_bytes
            evaluation = known.evaluate(found.plans, found.memory, most, partial(_evaluated, search))
    with search.part("fewest layers"):
        evaluation = with_fewest_layers(_weigher(search), search.space, evaluation, MARGIN)
    num_plans = found.num_plans + max(len(evaluation) - len(found.plans), 0)
    excluded = found.excluded
    later = _later_constraints(search, evaluation.step_seconds, evaluation.mfu)
    if later:
        left, more = apply_constraints(later, len(evaluation))
        evaluation, excluded = evaluation.take(left), {**excluded, **more}
    watts = watts_of_devices(search.device, evaluation.seconds_by_cause, load_run_figures())
    values = search.objective.value(search.job, evaluation.step_seconds, watts)
    return _Evaluated(evaluation, num_plans, excluded, watts, values)


def _may_leave_out(search: ResolvedSearch, known: Known) -> bool:
    """Whether slower plans need not be timed: by energy they may win, and demands count them."""
    request = search.request
    counts = request.min_mfu is not None or search.job.deadline_seconds is not None
    return not search.objective.needs_watts and (known.is_whole or not counts)


def _evaluated(search: ResolvedSearch, plans: PlanTable, memory: FootprintColumns) -> Evaluation:
    request = search.request
    return evaluate_plans(
        search.sizes,
        search.cluster,
        plans,
        request.training,
        search.sequence_length,
        device=search.device,
        cost_model=search.cost_model,
        constants=search.constants,
        max_memory_fraction=request.max_memory_fraction,
        memory=memory,
        num_processes=request.num_processes if len(plans) >= _PLANS_WORTH_A_PROCESS else 1,
    )


def _weigher(search: ResolvedSearch) -> Weigher:
    def memory_of(plans: PlanTable) -> FootprintColumns:
        return footprint_columns(
            search.sizes, plans, search.request.training, search.sequence_length, device=search.device
        )

    most = search.request.max_memory_fraction * search.device.memory_bytes
    return Weigher(
        search.sizes.num_layers, most, memory_of, lambda plans, memory: _evaluated(search, plans, memory)
    )


def _fitting(search: ResolvedSearch) -> Fitting:
    request = search.request
    with search.part("memory"):
        return enumerate_fitting(
            search.sizes,
            search.cluster,
            search.device,
            request.training,
            request.global_batch_size,
            search.sequence_length,
            search.space,
            request.max_memory_fraction,
        )


def _later_constraints(search: ResolvedSearch, seconds: Floats, mfu: Floats) -> list[Constraint]:
    """Those that need the time of a step; seconds and MFU of plans, [n]."""
    found = []
    if search.request.min_mfu is not None:
        best = f"the best plan reaches {100 * mfu.max():.1f} %"
        words = f"an MFU of at least {100 * search.request.min_mfu:g} %"
        found.append(Constraint(words, mfu >= search.request.min_mfu, best))
    if search.job.deadline_seconds is not None:
        whole = search.job.num_steps * seconds
        best = f"the fastest plan trains for {format_duration(float(whole.min()))}"
        words = f"trained in {format_duration(search.job.deadline_seconds)}"
        found.append(Constraint(words, whole <= search.job.deadline_seconds, best))
    return found


def _rank(search: ResolvedSearch, found: _Evaluated) -> tuple[_Evaluated, list[Simulated], Prices | None]:
    """Simulate the best plans of the closed form; best first.

    Returns:
        The valid plans without those that miss a demand when simulated, the simulated ones, and the prices of
        their operations; None where none is simulated.

    Raises:
        InputError: Simulating them would take too long.
    """
    if search.request.num_simulated < 1:
        return found, [], None
    listed = _shortlist(search, found)
    passes = sum(found.evaluation.plans.plan(place).num_passes for place in listed.places)
    PASSES_OF_SEARCH.check("micro-batches times stages of the plans that are simulated:", passes)

    def stops(place: int, before: Sequence[Simulated]) -> bool:
        search.on_progress("simulate", len(before), len(listed.places))
        return listed.stops(place, before)

    with search.part("simulate"):
        simulated, prices = make_simulator(search).simulate(
            listed.places, found.evaluation.plans.plan, stops, search.request.num_processes
        )
    found, simulated = _drop_late(search, found, simulated)
    times = np.array([one.time.step_seconds for one in simulated])
    order = order_of(search.objective, _values(search, simulated), times).tolist()
    return found, [simulated[at] for at in order], prices


def _groups(
    search: ResolvedSearch, found: _Evaluated, simulated: Sequence[Simulated], prices: Prices | None
) -> list[Group]:
    """The best plan of each of the best kinds: of simulated ones first, then of others by formula."""
    top, kinds = search.request.top, kinds_of(found.evaluation.plans)
    known = {one.place: one for one in simulated}
    widening = search.constants.interval_widening

    def tells(first: int, others: Sequence[int]) -> Sequence[bool]:
        assert prices is not None  # there are simulated plans
        return tell_apart(known[first], [known[place] for place in others], prices, widening)

    plan_of = found.evaluation.plans.plan
    groups = group_simulated(
        list(known), kinds[list(known)].tolist(), _values(search, simulated).tolist(), plan_of, tells, top
    )
    if len(groups) == top:
        return groups
    order = order_of(search.objective, found.values, found.evaluation.step_seconds)
    others = order[~np.isin(kinds[order], kinds[list(known)])]
    return [*groups, *group_by_formula(others, found.values, kinds, plan_of, top - len(groups))]


def _separations(
    search: ResolvedSearch, groups: Sequence[Group], simulated: Sequence[Simulated], prices: Prices | None
) -> tuple[Separation, ...]:
    """Which of the ranked plans the first cannot be told from."""
    known = {one.place: one for one in simulated}
    ranked = [known[group.first] for group in groups if group.first in known]
    return () if prices is None else separate(ranked, prices, search.constants.interval_widening)


def _variants(
    search: ResolvedSearch, found: _Evaluated, simulated: Sequence[Simulated], groups: Sequence[Group]
) -> tuple[Variant, ...]:
    """The plans that are folded behind ranked ones."""
    rows = [
        (at, place, is_alike)
        for at, group in enumerate(groups)
        for places, is_alike in ((group.alike, True), (group.others, False))
        for place in places
    ]
    plans = _detailed(search, found, simulated, [place for _, place, _ in rows])
    return tuple(
        Variant(of=at, plan=plan, is_alike=is_alike)
        for (at, _, is_alike), plan in zip(rows, plans, strict=True)
    )


def _shortlist(search: ResolvedSearch, found: _Evaluated) -> Shortlist:
    """Plans that are simulated; all objectives but energy order plans of one cluster by time."""
    evaluation, by_energy = found.evaluation, search.objective.needs_watts

    def cost_of(one: Simulated) -> float:
        return float(_values(search, [one])[0]) if by_energy else one.time.step_seconds

    costs = found.values if by_energy else evaluation.step_seconds
    return make_shortlist(
        costs,
        evaluation.plans.schedule,
        kinds_of(evaluation.plans),
        least=search.request.top,
        most=search.request.num_simulated,
        cost_of=cost_of,
    )


def _drop_late(
    search: ResolvedSearch, found: _Evaluated, simulated: list[Simulated]
) -> tuple[_Evaluated, list[Simulated]]:
    """Without plans that keep a demand by formula and miss it when simulated.

    Raises:
        PlanError: None of the simulated ones keeps it.
    """
    at = np.array([one.place for one in simulated])
    evaluation = found.evaluation
    seconds = np.array([one.time.step_seconds for one in simulated])
    mfu = evaluation.mfu[at] * evaluation.step_seconds[at] / seconds
    keeps, excluded = apply_constraints(_later_constraints(search, seconds, mfu), len(at))
    if keeps.all():
        return found, simulated
    left = np.setdiff1d(np.arange(len(evaluation)), at[~keeps])
    excluded = {f"{words}, simulated": count for words, count in excluded.items()}
    renumbered = np.searchsorted(left, at)
    kept = [
        replace(one, place=int(place))
        for one, place, stays in zip(simulated, renumbered, keeps, strict=True) if stays
    ]  # fmt: skip
    fewer = _Evaluated(
        evaluation.take(left), found.num_plans, {**found.excluded, **excluded}, found.watts[left],
        found.values[left],
    )  # fmt: skip
    return fewer, kept


def _values(search: ResolvedSearch, simulated: Sequence[Simulated]) -> Floats:
    seconds = np.array([one.time.step_seconds for one in simulated])
    watts = np.array([_watts(search, one.time.seconds_by_cause) for one in simulated])
    return search.objective.value(search.job, seconds, watts)


def _watts(search: ResolvedSearch, seconds_by_cause: Mapping[str, float]) -> float:
    columns = {cause: np.array([seconds_by_cause.get(cause, 0.0)]) for cause in CAUSES}
    return float(watts_of_devices(search.device, columns, load_run_figures())[0])


def _detailed(
    search: ResolvedSearch, found: _Evaluated, simulated: Sequence[Simulated], places: Sequence[int]
) -> tuple[RankedPlan, ...]:
    """Plans with their figures and intervals: by the simulation where there is one, else by formula."""
    known = {one.place: one for one in simulated}
    missing = [place for place in places if place not in known]
    if missing:
        plan_of = found.evaluation.plans.plan
        timed, _ = make_simulator(search, "closed_form").simulate(
            missing, plan_of, lambda place, before: False
        )
        known |= {one.place: one for one in timed}
    methods = {one.place for one in simulated}
    return tuple(
        _ranked(search, found, known[place], "simulated" if place in methods else "closed_form")
        for place in places
    )


def _ranked(search: ResolvedSearch, found: _Evaluated, one: Simulated, method: Method) -> RankedPlan:
    """A plan with its figures."""
    evaluation, at = found.evaluation, one.place
    seconds, causes = one.time.step_seconds, one.time.seconds_by_cause
    watts = _watts(search, causes)
    value = search.objective.value(search.job, np.array([seconds]), np.array([watts]))
    peak_bytes, device_bytes = int(evaluation.peak_bytes[at]), int(evaluation.device_bytes[at])
    if one.memory is not None:
        peak_bytes, device_bytes = one.memory.footprint.peak_bytes, one.memory.footprint.device_bytes
    return RankedPlan(
        plan=one.plan, method=method,
        step_seconds=seconds, step_seconds_low=one.low * seconds, step_seconds_high=one.high * seconds,
        seconds_by_cause=causes, num_tokens=evaluation.num_tokens, num_devices=search.cluster.num_devices,
        mfu=float(evaluation.mfu[at] * evaluation.step_seconds[at]) / seconds,
        peak_bytes=peak_bytes, device_bytes=device_bytes,
        capacity_bytes=search.device.memory_bytes, device_watts=None if np.isnan(watts) else watts,
        dollars_per_device_hour=search.job.dollars_per_device_hour, value=float(value[0]),
    )  # fmt: skip


def _front(
    search: ResolvedSearch, found: _Evaluated, simulated: Sequence[Simulated]
) -> tuple[RankedPlan, ...]:
    """Of time, energy and memory; on one cluster dollars go with time.

    Of plans that none beats by formula and of the simulated ones: those that none beats by its figures.
    """
    evaluation = found.evaluation
    watts = np.nan_to_num(found.watts)
    costs = np.stack(
        [evaluation.step_seconds, watts * evaluation.step_seconds, evaluation.device_bytes], axis=1
    )
    places = dict.fromkeys([*(one.place for one in simulated), *pareto_front(costs).tolist()])
    plans = _detailed(search, found, simulated, list(places))
    figures = [(p.step_seconds, (p.device_watts or 0.0) * p.step_seconds, p.device_bytes) for p in plans]
    return tuple(plans[at] for at in pareto_front(np.array(figures)).tolist())
