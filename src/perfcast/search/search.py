"""The best plan for a model, a cluster and a goal: every plan by formula, the best ones event by event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.catalog.runs import load_run_figures
from perfcast.core.arrays import Floats
from perfcast.core.cluster import Cluster
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.hardware import Device
from perfcast.core.mode import Method
from perfcast.core.plan_table import PlanTable
from perfcast.core.training import Training
from perfcast.cost.host_link import has_host_link
from perfcast.cost.model import CostModel
from perfcast.memory.footprint import FootprintColumns, footprint_columns
from perfcast.prediction.model import Model
from perfcast.prediction.step.constants import StepConstants, load_step_constants
from perfcast.prediction.step.timer import make_timer
from perfcast.search.evaluation.evaluate import Evaluation, evaluate_plans
from perfcast.search.evaluation.fewest_layers import Weigher, with_fewest_layers
from perfcast.search.question import Progress, Question, resolve_question
from perfcast.search.ranking.constraints import Constraint, apply_constraints
from perfcast.search.ranking.objectives import order_of, watts_of_devices
from perfcast.search.ranking.pareto import pareto_front
from perfcast.search.ranking.separate import separate
from perfcast.search.ranking.shortlist import Shortlist, make_shortlist
from perfcast.search.ranking.simulator import Simulated, Simulator
from perfcast.search.result import RankedPlan, SearchResult, Separation
from perfcast.search.space.definition import Space
from perfcast.search.space.fitting import Fitting, enumerate_fitting
from perfcast.units import format_duration

#: The best few hundred by formula are simulated, as far as they can still turn out best.
NUM_SIMULATED = 200
#: Plans that compute some layers again are looked for up to so much slower than the fastest of the others.
FEWEST_LAYERS_MARGIN = 0.05
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


def search_plans(
    model: Model,
    cluster: str | Cluster,
    *,
    global_batch_size: int,
    sequence_length: int | None = None,
    training: Training | None = None,
    space: Space | None = None,
    objective: str = "time",
    tokens: float | None = None,
    deadline_seconds: float | None = None,
    dollars_per_device_hour: float | None = None,
    max_memory_fraction: float = 1.0,
    min_mfu: float | None = None,
    top: int = 10,
    num_simulated: int = NUM_SIMULATED,
    cost_model: str | CostModel | None = None,
    device: Device | None = None,
    constants: StepConstants | None = None,
    on_progress: Progress = lambda part, done, total: None,
    num_processes: int = 1,
) -> SearchResult:
    """Find the best plan of a space.

    Args:
        model: Catalog name, a Hugging Face config.json or its folder, or the sizes themselves.
        cluster: Catalog name with ``:N`` for its devices, a file of your own, or the cluster itself.
        training: bf16 AdamW by Megatron-LM by default.
        space: What is searched; None: all that ``Space`` holds by default.
        objective: A name of ``objectives.OBJECTIVES``.
        tokens: Of the whole training, for 'time-to-train' and a deadline.
        deadline_seconds: Plans that train longer are left out.
        max_memory_fraction: Of the device's memory that a plan may take.
        min_mfu: Plans with less are left out.
        top: Plans that the result ranks.
        num_simulated: At most so many of the best are simulated (see ``shortlist``); 0: the order of the
            formulas stands.
        device: In place of the cluster's.
        on_progress: Told what is done: part, done, all of it.
        num_processes: That evaluate and simulate plans; the result is the same.

    Raises:
        InputError: Unknown names, limits that mean nothing, an objective without what it needs.
        PlanError: No plan is left; names the demand that excludes everything.
    """
    asked = resolve_question(
        model, cluster, global_batch_size, sequence_length, training, space or Space(), objective, tokens,
        deadline_seconds, dollars_per_device_hour, max_memory_fraction, min_mfu, cost_model, device,
        constants or load_step_constants(), on_progress, num_processes,
    )  # fmt: skip
    found = _evaluate(asked)
    found, simulated, separations = _rank(asked, found, top, num_simulated)
    with asked.part("front"):
        front = _front(asked, found, simulated)
    ranked = _detailed(asked, found, simulated, _best(asked, found, simulated, top))
    evaluation = found.evaluation
    return SearchResult(
        model=asked.name, cluster=asked.cluster.name, device=asked.device.name,
        num_devices=asked.cluster.num_devices, training=asked.training,
        sequence_length=asked.sequence_length, global_batch_size=global_batch_size,
        cost_model=asked.cost_model.name, objective=objective, ranked=ranked, front=front,
        separations=separations, excluded=found.excluded, num_plans=found.num_plans,
        num_valid=len(evaluation), num_simulated=len(simulated), num_operations=evaluation.num_operations,
        num_steps=None if tokens is None else asked.job.num_steps,
        seconds_by_part=asked.seconds_by_part, evaluation=evaluation,
        assumptions=_assumptions(asked, simulated, evaluation),
    )  # fmt: skip


def _evaluate(asked: Question) -> _Evaluated:
    """Every plan: first whether it fits and its groups lie in the cluster, then its time."""
    found = _fitting(asked)
    asked.on_progress("evaluate", 0, len(found.plans))
    with asked.part("evaluate"):
        evaluation = _evaluated(asked, found.plans, found.memory)
    with asked.part("fewest layers"):
        evaluation = with_fewest_layers(_weigher(asked), asked.space, evaluation, FEWEST_LAYERS_MARGIN)
    num_plans = found.num_plans + len(evaluation) - len(found.plans)
    excluded = found.excluded
    later = _later_constraints(asked, evaluation.step_seconds, evaluation.mfu)
    if later:
        left, more = apply_constraints(later, len(evaluation))
        evaluation, excluded = evaluation.take(left), {**excluded, **more}
    watts = watts_of_devices(asked.device, evaluation.seconds_by_cause, load_run_figures())
    values = asked.objective.value(asked.job, evaluation.step_seconds, watts)
    return _Evaluated(evaluation, num_plans, excluded, watts, values)


def _evaluated(asked: Question, plans: PlanTable, memory: FootprintColumns) -> Evaluation:
    return evaluate_plans(
        asked.model, asked.cluster, plans, asked.training, asked.sequence_length, device=asked.device,
        cost_model=asked.cost_model, constants=asked.constants,
        max_memory_fraction=asked.max_memory_fraction, memory=memory,
        num_processes=asked.num_processes if len(plans) >= _PLANS_WORTH_A_PROCESS else 1,
    )  # fmt: skip


def _weigher(asked: Question) -> Weigher:
    def memory_of(plans: PlanTable) -> FootprintColumns:
        return footprint_columns(
            asked.model, plans, asked.training, asked.sequence_length, device=asked.device
        )

    most = asked.max_memory_fraction * asked.device.memory_bytes
    return Weigher(
        asked.model.num_layers, most, memory_of, lambda plans, memory: _evaluated(asked, plans, memory)
    )


def _fitting(asked: Question) -> Fitting:
    with asked.part("memory"):
        return enumerate_fitting(
            asked.model, asked.cluster, asked.device, asked.training, asked.global_batch_size,
            asked.sequence_length, asked.space, asked.max_memory_fraction,
        )  # fmt: skip


def _later_constraints(asked: Question, seconds: Floats, mfu: Floats) -> list[Constraint]:
    """Those that need the time of a step; seconds and MFU of plans, [n]."""
    found = []
    if asked.min_mfu is not None:
        best = f"the best plan reaches {100 * mfu.max():.1f} %"
        words = f"an MFU of at least {100 * asked.min_mfu:g} %"
        found.append(Constraint(words, mfu >= asked.min_mfu, best))
    if asked.job.deadline_seconds is not None:
        whole = asked.job.num_steps * seconds
        best = f"the fastest plan trains for {format_duration(float(whole.min()))}"
        words = f"trained in {format_duration(asked.job.deadline_seconds)}"
        found.append(Constraint(words, whole <= asked.job.deadline_seconds, best))
    return found


def _rank(
    asked: Question, found: _Evaluated, top: int, num_simulated: int
) -> tuple[_Evaluated, list[Simulated], tuple[Separation, ...]]:
    """Simulate the best plans of the closed form; best first.

    Returns:
        The valid plans without those that miss a demand when simulated, the simulated ones, and which of
        them the first cannot be told from.
    """
    if num_simulated < 1:
        return found, [], ()
    listed = _shortlist(asked, found, top, num_simulated)

    def stops(place: int, before: Sequence[Simulated]) -> bool:
        asked.on_progress("simulate", len(before), len(listed.places))
        return listed.stops(place, before)

    with asked.part("simulate"):
        simulated, prices = _simulator(asked).simulate(
            listed.places, found.evaluation.plans.plan, stops, asked.num_processes
        )
    found, simulated = _drop_late(asked, found, simulated)
    times = np.array([one.time.step_seconds for one in simulated])
    order = order_of(asked.objective, _values(asked, simulated), times).tolist()
    best_first = [simulated[at] for at in order]
    with asked.part("separate"):
        apart = separate(best_first[:top], prices, asked.constants.interval_widening)
    return found, best_first, apart


def _shortlist(asked: Question, found: _Evaluated, top: int, num_simulated: int) -> Shortlist:
    """Plans that are simulated; all objectives but energy order plans of one cluster by time."""
    evaluation, by_energy = found.evaluation, asked.objective.needs_watts

    def cost_of(one: Simulated) -> float:
        return float(_values(asked, [one])[0]) if by_energy else one.time.step_seconds

    costs = found.values if by_energy else evaluation.step_seconds
    return make_shortlist(
        costs, evaluation.plans.schedule, least=top, most=num_simulated, cost_of=cost_of
    )  # fmt: skip


def _drop_late(
    asked: Question, found: _Evaluated, simulated: list[Simulated]
) -> tuple[_Evaluated, list[Simulated]]:
    """Without plans that keep a demand by formula and miss it when simulated.

    Raises:
        PlanError: None of the simulated ones keeps it.
    """
    at = np.array([one.place for one in simulated])
    evaluation = found.evaluation
    seconds = np.array([one.time.step_seconds for one in simulated])
    mfu = evaluation.mfu[at] * evaluation.step_seconds[at] / seconds
    keeps, excluded = apply_constraints(_later_constraints(asked, seconds, mfu), len(at))
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


def _simulator(asked: Question, method: Method = "simulated") -> Simulator:
    timer = make_timer(method, "train", asked.training, asked.cost_model, asked.constants)
    return Simulator(
        asked.model, asked.training, asked.sequence_length, asked.cluster, asked.device, asked.cost_model,
        timer,
    )  # fmt: skip


def _values(asked: Question, simulated: Sequence[Simulated]) -> Floats:
    seconds = np.array([one.time.step_seconds for one in simulated])
    watts = np.array([_watts(asked, one.time.seconds_by_cause) for one in simulated])
    return asked.objective.value(asked.job, seconds, watts)


def _watts(asked: Question, seconds_by_cause: Mapping[str, float]) -> float:
    columns = {cause: np.array([seconds_by_cause.get(cause, 0.0)]) for cause in CAUSES}
    return float(watts_of_devices(asked.device, columns, load_run_figures())[0])


def _best(asked: Question, found: _Evaluated, simulated: Sequence[Simulated], top: int) -> list[int]:
    """Places of the plans that are ranked: simulated ones first, then others by formula."""
    places = [one.place for one in simulated]
    order = order_of(asked.objective, found.values, found.evaluation.step_seconds)
    others = order[~np.isin(order, places)]
    return [*places, *others[: max(top - len(places), 0)].tolist()][:top]


def _detailed(
    asked: Question, found: _Evaluated, simulated: Sequence[Simulated], places: Sequence[int]
) -> tuple[RankedPlan, ...]:
    """Plans with their figures and intervals: by the simulation where there is one, else by formula."""
    known = {one.place: one for one in simulated}
    missing = [place for place in places if place not in known]
    if missing:
        plan_of = found.evaluation.plans.plan
        timed, _ = _simulator(asked, "closed_form").simulate(missing, plan_of, lambda place, before: False)
        known |= {one.place: one for one in timed}
    methods = {one.place for one in simulated}
    return tuple(
        _ranked(asked, found, known[place], "simulated" if place in methods else "closed_form")
        for place in places
    )


def _ranked(asked: Question, found: _Evaluated, one: Simulated, method: Method) -> RankedPlan:
    """A plan with its figures."""
    evaluation, at = found.evaluation, one.place
    seconds, causes = one.time.step_seconds, one.time.seconds_by_cause
    watts = _watts(asked, causes)
    value = asked.objective.value(asked.job, np.array([seconds]), np.array([watts]))
    return RankedPlan(
        plan=one.plan, method=method,
        step_seconds=seconds, step_seconds_low=one.low * seconds, step_seconds_high=one.high * seconds,
        seconds_by_cause=causes, num_tokens=evaluation.num_tokens, num_devices=asked.cluster.num_devices,
        mfu=float(evaluation.mfu[at] * evaluation.step_seconds[at]) / seconds,
        peak_bytes=int(evaluation.peak_bytes[at]), device_bytes=int(evaluation.device_bytes[at]),
        capacity_bytes=asked.device.memory_bytes, device_watts=None if np.isnan(watts) else watts,
        dollars_per_device_hour=asked.job.dollars_per_device_hour, value=float(value[0]),
    )  # fmt: skip


def _front(asked: Question, found: _Evaluated, simulated: Sequence[Simulated]) -> tuple[RankedPlan, ...]:
    """Of time, energy and memory; on one cluster dollars go with time.

    Of plans that none beats by formula and of the simulated ones: those that none beats by its figures.
    """
    evaluation = found.evaluation
    watts = np.nan_to_num(found.watts)
    costs = np.stack(
        [evaluation.step_seconds, watts * evaluation.step_seconds, evaluation.device_bytes], axis=1
    )
    places = dict.fromkeys([*(one.place for one in simulated), *pareto_front(costs).tolist()])
    plans = _detailed(asked, found, simulated, list(places))
    figures = [(p.step_seconds, (p.device_watts or 0.0) * p.step_seconds, p.device_bytes) for p in plans]
    return tuple(plans[at] for at in pareto_front(np.array(figures)).tolist())


def _assumptions(asked: Question, simulated: Sequence[Simulated], evaluation: Evaluation) -> tuple[str, ...]:
    notes = [f"framework {asked.training.framework}, {asked.training.dtype}, {asked.training.optimizer}"]
    if not has_host_link(asked.device):
        notes.append(f"nothing offloaded: the rate of {asked.device.name}'s link to its host is not known")
    if asked.space.recompute_layers is None and "recompute_layers" not in asked.space.fixed:
        count = int((evaluation.plans.recompute_layers > 0).sum())
        notes.append(
            "of plans that must compute layers again, the fewest layers that fit were tried where the step "
            f"may be within {100 * FEWEST_LAYERS_MARGIN:g} % of the fastest of the others: {count:,} plans"
        )
    if simulated:
        formula = evaluation.step_seconds[[one.place for one in simulated]]
        apart = np.array([one.time.step_seconds for one in simulated]) / formula - 1
        notes.append(
            f"all plans by formula; {len(simulated):,} of them simulated event by event, best bounds first; "
            f"their steps lie {100 * apart.min():+.1f} to {100 * apart.max():+.1f} % off their formulas"
        )
    return tuple(notes)
