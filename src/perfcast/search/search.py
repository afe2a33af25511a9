"""The best plan for a model, a cluster and a goal: every plan by formula, the best ones event by event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perfcast.catalog.clusters import load_cluster
from perfcast.catalog.runs import load_run_figures
from perfcast.core.cluster import Cluster
from perfcast.core.hardware import Device
from perfcast.core.step_forecast import CAUSES
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.cost.model import CostModel
from perfcast.errors import InputError, ModelError
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.plan_memory import read_model, to_transformer
from perfcast.prediction.plan_timer import Timer
from perfcast.prediction.step_constants import StepConstants, load_step_constants
from perfcast.search.constraints import Constraint, apply_constraints, check_limits
from perfcast.search.evaluate import Evaluation, evaluate_plans
from perfcast.search.fitting import Fitting, enumerate_fitting
from perfcast.search.objectives import Job, Objective, find_objective, order_of, watts_of_devices
from perfcast.search.pareto import pareto_front
from perfcast.search.rank import Simulated, Simulator
from perfcast.search.result import RankedPlan, SearchResult, Separation
from perfcast.search.separate import separate
from perfcast.search.space import Space
from perfcast.units import format_duration

#: Told of each part of a search: its name, what is done of it, and all of it.
Progress = Callable[[str, int, int], None]
#: Plans whose closed form is slower than the best simulated step by more than this are not simulated.
_MARGIN = 0.05


@dataclass(frozen=True, kw_only=True)
class _Search:
    """What is searched, all names resolved."""

    name: str
    model: Transformer
    cluster: Cluster
    device: Device
    cost_model: CostModel
    training: Training
    sequence_length: int
    global_batch_size: int
    objective: Objective
    objective_name: str
    job: Job
    space: Space
    constants: StepConstants
    max_memory_fraction: float
    min_mfu: float | None
    deadline_seconds: float | None
    on_progress: Progress
    num_processes: int
    seconds_by_part: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of the search."""
        began = time.perf_counter()
        yield
        self.seconds_by_part[name] = self.seconds_by_part.get(name, 0.0) + time.perf_counter() - began


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
    watts: NDArray[np.float64]
    values: NDArray[np.float64]


def search_plans(
    model: str | Transformer,
    cluster: str | Cluster,
    *,
    global_batch_size: int,
    sequence_length: int | None = None,
    training: Training | None = None,
    space: Space | None = None,
    objective: str = "step-time",
    tokens: float | None = None,
    deadline_seconds: float | None = None,
    dollars_per_device_hour: float | None = None,
    max_memory_fraction: float = 1.0,
    min_mfu: float | None = None,
    top: int = 10,
    num_simulated: int = 200,
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
        num_simulated: At most so many of the best are simulated; 0: the closed form's order stands.
        device: In place of the cluster's.
        on_progress: Told what is done: part, done, all of it.
        num_processes: That evaluate plans; the result is the same.

    Raises:
        InputError: Unknown names, limits that mean nothing, an objective without what it needs.
        PlanError: No plan is left; names the demand that excludes everything.
    """
    asked = _resolve(
        model, cluster, global_batch_size, sequence_length, training, space or Space(), objective, tokens,
        deadline_seconds, dollars_per_device_hour, max_memory_fraction, min_mfu, cost_model, device,
        constants or load_step_constants(), on_progress, num_processes,
    )  # fmt: skip
    found = _evaluate(asked)
    simulated, separations = _rank(asked, found, top, num_simulated)
    with asked.part("front"):
        front = _detailed(asked, found, simulated, _front(found).tolist())
    ranked = _detailed(asked, found, simulated, _best(asked, found, simulated, top))
    evaluation = found.evaluation
    return SearchResult(
        model=asked.name, cluster=asked.cluster.name, device=asked.device.name,
        num_devices=asked.cluster.num_devices, training=asked.training,
        sequence_length=asked.sequence_length, global_batch_size=global_batch_size,
        cost_model=asked.cost_model.name, objective=objective, ranked=ranked, front=front,
        separations=separations, excluded=found.excluded, num_plans=found.num_plans,
        num_valid=len(evaluation), num_simulated=len(simulated), num_operations=evaluation.num_operations,
        seconds_by_part=asked.seconds_by_part, evaluation=evaluation,
        assumptions=_assumptions(asked, len(simulated)),
    )  # fmt: skip


def _resolve(
    model: str | Transformer, cluster: str | Cluster, global_batch_size: int, sequence_length: int | None,
    training: Training | None, space: Space, objective: str, tokens: float | None,
    deadline_seconds: float | None, dollars_per_device_hour: float | None, max_memory_fraction: float,
    min_mfu: float | None, cost_model: str | CostModel | None, device: Device | None,
    constants: StepConstants, on_progress: Progress, num_processes: int,
) -> _Search:  # fmt: skip
    """Names to data, and what cannot be asked refused."""
    check_limits(max_memory_fraction, min_mfu, dollars_per_device_hour)
    if global_batch_size < 1:
        raise InputError(f"a global batch of {global_batch_size} sequences; it must be at least 1")
    target = load_cluster(cluster) if isinstance(cluster, str) else cluster
    die = device or resolve_device(target.device)
    if isinstance(model, Transformer):
        name, sizes, own_length = "transformer", model, None
    else:
        config, architecture, own_length = read_model(model)
        name, sizes = model, to_transformer(config, architecture, model)
    length = sequence_length or own_length
    if length is None:
        raise ModelError(f"{name} states no sequence length; give --sequence-length")
    if deadline_seconds is not None and tokens is None:
        raise InputError("a deadline needs the tokens of the training (--tokens)")
    if cost_model is None or isinstance(cost_model, str):
        cost_model = resolve_cost_model(cost_model, die)
    job = Job(
        num_devices=target.num_devices, num_tokens=global_batch_size * length, tokens=tokens,
        dollars_per_device_hour=dollars_per_device_hour,
    )  # fmt: skip
    return _Search(
        name=name, model=sizes, cluster=target, device=die, cost_model=cost_model,
        training=training or Training(framework="megatron"), sequence_length=length,
        global_batch_size=global_batch_size, objective=find_objective(objective, job, die),
        objective_name=objective, job=job, space=space, constants=constants,
        max_memory_fraction=max_memory_fraction, min_mfu=min_mfu, deadline_seconds=deadline_seconds,
        on_progress=on_progress, num_processes=num_processes,
    )  # fmt: skip


def _evaluate(asked: _Search) -> _Evaluated:
    """Every plan: first whether it fits and its groups lie in the cluster, then its time."""
    found = _fitting(asked)
    asked.on_progress("evaluate", 0, len(found.plans))
    with asked.part("evaluate"):
        evaluation = evaluate_plans(
            asked.model, asked.cluster, found.plans, asked.training, asked.sequence_length,
            device=asked.device, cost_model=asked.cost_model, constants=asked.constants,
            max_memory_fraction=asked.max_memory_fraction, memory=found.memory,
            num_processes=asked.num_processes,
        )  # fmt: skip
    excluded = found.excluded
    later = _later_constraints(asked, evaluation)
    if later:
        left, more = apply_constraints(later, len(evaluation))
        evaluation, excluded = evaluation.take(left), {**excluded, **more}
    watts = watts_of_devices(asked.device, evaluation.seconds_by_cause, load_run_figures())
    values = asked.objective.value(asked.job, evaluation.step_seconds, watts)
    return _Evaluated(evaluation, found.num_plans, excluded, watts, values)


def _fitting(asked: _Search) -> Fitting:
    with asked.part("memory"):
        return enumerate_fitting(
            asked.model, asked.cluster, asked.device, asked.training, asked.global_batch_size,
            asked.sequence_length, asked.space, asked.max_memory_fraction,
        )  # fmt: skip


def _later_constraints(asked: _Search, evaluation: Evaluation) -> list[Constraint]:
    """Those that need the time of a step."""
    found = []
    if asked.min_mfu is not None:
        best = f"the best plan reaches {100 * evaluation.mfu.max():.1f} %"
        words = f"an MFU of at least {100 * asked.min_mfu:g} %"
        found.append(Constraint(words, evaluation.mfu >= asked.min_mfu, best))
    if asked.deadline_seconds is not None:
        steps = np.ceil((asked.job.tokens or 0.0) / asked.job.num_tokens)
        whole = steps * evaluation.step_seconds
        best = f"the fastest plan trains for {format_duration(float(whole.min()))}"
        words = f"trained in {format_duration(asked.deadline_seconds)}"
        found.append(Constraint(words, whole <= asked.deadline_seconds, best))
    return found


def _rank(
    asked: _Search, found: _Evaluated, top: int, num_simulated: int
) -> tuple[list[Simulated], tuple[Separation, ...]]:
    """Simulate the best plans of the closed form; best first."""
    if num_simulated < 1:
        return [], ()
    fastest = np.argsort(
        found.values if not asked.objective.larger_is_better else -found.values, kind="stable"
    )
    evaluation = found.evaluation
    seconds = evaluation.step_seconds
    near = fastest[seconds[fastest] <= (1 + _MARGIN) * seconds[fastest[0]]]
    places = (
        near[:num_simulated].tolist() if len(near) >= top else fastest[: min(top, num_simulated)].tolist()
    )
    asked.on_progress("simulate", 0, len(places))

    def stops(place: int, before: Sequence[Simulated]) -> bool:
        asked.on_progress("simulate", len(before), len(places))
        if len(before) < top:
            return False
        best = min(one.time.step_seconds for one in before)
        return bool(seconds[place] > (1 + _MARGIN) * best)

    with asked.part("simulate"):
        simulated, prices = _simulator(asked).simulate(places, evaluation.plans.plan, stops)
    values = _values(asked, simulated)
    order = order_of(asked.objective, values).tolist()
    best_first = [simulated[at] for at in order]
    with asked.part("separate"):
        apart = separate(best_first[:top], prices, asked.constants.interval_widening)
    return best_first, apart


def _simulator(asked: _Search, method: str = "simulated") -> Simulator:
    framework = asked.training.framework
    timer = Timer(
        method, "train", asked.constants.launch_seconds[framework],
        asked.constants.fixed_seconds.get(framework, 0.0), asked.constants.interval_widening,
    )  # fmt: skip
    return Simulator(
        asked.model,
        asked.training,
        asked.sequence_length,
        asked.cluster,
        asked.device,
        asked.cost_model,
        timer,
    )


def _values(asked: _Search, simulated: Sequence[Simulated]) -> NDArray[np.float64]:
    seconds = np.array([one.time.step_seconds for one in simulated])
    watts = np.array([_watts(asked, one.time.seconds_by_cause) for one in simulated])
    return asked.objective.value(asked.job, seconds, watts)


def _watts(asked: _Search, seconds_by_cause: Mapping[str, float]) -> float:
    columns = {cause: np.array([seconds_by_cause.get(cause, 0.0)]) for cause in CAUSES}
    return float(watts_of_devices(asked.device, columns, load_run_figures())[0])


def _best(asked: _Search, found: _Evaluated, simulated: Sequence[Simulated], top: int) -> list[int]:
    """Places of the plans that are ranked: simulated ones first, then others by formula."""
    places = [one.place for one in simulated]
    others = np.setdiff1d(order_of(asked.objective, found.values), places, assume_unique=True)
    return [*places, *others[: max(top - len(places), 0)].tolist()][:top]


def _detailed(
    asked: _Search, found: _Evaluated, simulated: Sequence[Simulated], places: Sequence[int]
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


def _ranked(asked: _Search, found: _Evaluated, one: Simulated, method: str) -> RankedPlan:
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


def _front(found: _Evaluated) -> NDArray[np.int64]:
    """Of time, energy and memory; on one cluster dollars go with time."""
    evaluation = found.evaluation
    columns = [evaluation.step_seconds, evaluation.device_bytes]
    if not np.isnan(found.watts).any():
        columns.insert(1, found.watts * evaluation.step_seconds)
    return pareto_front(np.stack(columns, axis=1))


def _assumptions(asked: _Search, num_simulated: int) -> tuple[str, ...]:
    notes = [f"framework {asked.training.framework}, {asked.training.dtype}, {asked.training.optimizer}"]
    if num_simulated:
        notes.append(
            f"all plans by formula; {num_simulated} simulated event by event: those whose closed form is at "
            f"most {100 * _MARGIN:g} % slower than the fastest step"
        )
    return tuple(notes)
