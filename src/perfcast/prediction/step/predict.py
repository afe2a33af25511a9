"""The front door of plans: a model, a cluster and a plan → the time and memory of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from perfcast.catalog.clusters import load_cluster
from perfcast.core.cluster import Cluster
from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.plan import PlanForecast, Relief
from perfcast.core.hardware import Device
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.core.work import StepWork
from perfcast.cost.model import CostModel, KnowsHost
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.step.assumptions import list_beyond_positions, list_plan_assumptions
from perfcast.prediction.step.capture import capture_work, has_closed_form
from perfcast.prediction.step.constants import StepConstants, load_step_constants
from perfcast.prediction.step.prices import price_step
from perfcast.prediction.step.reliefs import Scenario, find_reliefs
from perfcast.prediction.step.runs import count_runs, relative_interval, seconds_by_provenance
from perfcast.prediction.step.timer import Timer
from perfcast.prediction.step.work import (
    StepFacts,
    build_work,
    check_devices,
    estimate_plan_memory,
    resolve_step,
)

if TYPE_CHECKING:
    from perfcast.simulate.stragglers import Slowdowns


def predict_plan(
    model: str | Transformer,
    cluster: str | Cluster,
    plan: Plan,
    *,
    mode: Mode = "train",
    training: Training | None = None,
    dtype: str = "bf16",
    sequence_length: int | None = None,
    cost_model: str | CostModel | None = None,
    method: str = "simulated",
    stragglers: Slowdowns | None = None,
    with_spans: bool = False,
    reliefs: bool = True,
    memory: bool = True,
    constants: StepConstants | None = None,
    notes: tuple[str, ...] = (),
) -> PlanForecast:
    """Forecast one step of a model under a plan.

    A transformer is described by its sizes; anything else is captured, and its graph cut by the plan.

    Args:
        model: Catalog name, a Hugging Face config.json or its folder, ``FILE.py:FUNCTION``, or the sizes of a
            transformer.
        cluster: Catalog name with ``:N`` for its devices, a file of your own, or the cluster itself; it has
            exactly the plan's devices.
        mode: 'train', 'prefill' or 'decode' (the sequence is then what the cache holds).
        training: Precision, optimizer and framework; by default AdamW in ``dtype`` by the framework that
            ``default_framework`` names.
        dtype: Where ``training`` does not say.
        cost_model: 'learned' (default), 'roofline', or an object that prices operations.
        method: 'simulated', event by event, or 'closed_form', formulas of the pipeline.
        stragglers: How ranks differ in speed; None: not at all.
        with_spans: Whether to keep the timeline (simulated only).
        reliefs: Whether to ask what would help.
        memory: Whether to forecast memory too.
        constants: Of the step as a whole; the shipped ones by default.
        notes: What was chosen before, for the assumptions.

    Raises:
        InputError: Unknown names, a plan that model, framework or cluster cannot follow; the message states
            the equation.
    """
    target = load_cluster(cluster) if isinstance(cluster, str) else cluster
    check_devices(plan, target)
    device = resolve_device(target.device)
    if cost_model is None or isinstance(cost_model, str):
        cost_model = resolve_cost_model(cost_model, device)
    asked = _Asked(mode=mode, training=training, dtype=dtype, sequence_length=sequence_length)
    held = None
    if isinstance(model, str) and not has_closed_form(model):
        facts, work = capture_work(model, plan, device, **asked)
    else:
        facts, sizes = resolve_step(model, plan, **asked)
        work = build_work(facts, sizes)
        held = estimate_plan_memory(facts, sizes, device) if memory else None
        notes = (*list_beyond_positions(sizes, facts.sequence_length), *notes)
    return forecast_work(
        work, facts, target, device, cost_model,
        make_timer(facts, cost_model, method, constants or load_step_constants()),
        memory=held, stragglers=stragglers, with_spans=with_spans, reliefs=reliefs, notes=notes,
    )  # fmt: skip


class _Asked(TypedDict):
    mode: Mode
    training: Training | None
    dtype: str
    sequence_length: int | None


def make_timer(facts: StepFacts, cost_model: CostModel, method: str, constants: StepConstants) -> Timer:
    """How a step is timed: a training by its framework's host, inference by the kernels' framework's."""
    if facts.training is not None:
        name = facts.training.framework
        return Timer(
            method, facts.mode, constants.launch_seconds[name], constants.fixed_seconds.get(name, 0.0),
            constants.interval_widening,
        )  # fmt: skip
    host_seconds = cost_model.host_seconds if isinstance(cost_model, KnowsHost) else 0.0
    return Timer(method, facts.mode, host_seconds, 0.0, constants.interval_widening)


def forecast_work(
    work: StepWork,
    facts: StepFacts,
    cluster: Cluster,
    device: Device,
    cost_model: CostModel,
    timer: Timer,
    *,
    memory: PlanMemory | None = None,
    stragglers: Slowdowns | None = None,
    with_spans: bool = False,
    reliefs: bool = True,
    notes: tuple[str, ...] = (),
) -> PlanForecast:
    """Price each different operation once, time the step, and say what it rests on.

    Raises:
        PlanError: A group that does not lie in the cluster; a precision that the device lacks.
    """
    prices = price_step(work.operations(), device, cluster, cost_model, facts.training)
    time = timer.time(work, prices.seconds, with_spans=with_spans)
    busiest = time.ranks[0]
    runs = count_runs(work, busiest.stage)
    low, high = relative_interval(runs, prices, busiest, timer.interval_widening)
    effect = None
    if stragglers is not None:
        effect = timer.stragglers(work, prices.seconds, stragglers, time.step_seconds)
    found: tuple[Relief, ...] = ()
    if reliefs:
        scenario = Scenario(
            work, device, prices.seconds, timer,
            lambda calls, other: price_step(calls, other, cluster, cost_model, facts.training).seconds,
        )  # fmt: skip
        found = find_reliefs(scenario, time, effect)
    return PlanForecast(
        model=facts.model, cluster=cluster.name, device=device.name, num_devices=cluster.num_devices,
        mode=facts.mode, method=timer.method, plan=facts.plan, training=facts.training, dtype=facts.dtype,
        sequence_length=facts.sequence_length, cost_model=cost_model.name, time=time,
        step_seconds_low=low * time.step_seconds, step_seconds_high=high * time.step_seconds,
        num_tokens=work.num_tokens, flops=work.flops, recompute_flops=work.recompute_flops,
        peak_flops_per_second=device.peak_flops_per_second(DTYPES_BY_LABEL[facts.dtype], matrix_units=True),
        parameter_count=facts.parameter_count, memory=memory, stragglers=effect, reliefs=found,
        seconds_by_provenance=seconds_by_provenance(runs, prices),
        assumptions=(
            *list_plan_assumptions(work, facts, cluster, device, cost_model, timer, memory), *notes
        ),
    )  # fmt: skip
