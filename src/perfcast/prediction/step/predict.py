"""The front door of plans: a model, a cluster and a plan → the time and memory of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.forecast.recommendation import BoundRecommendation
from perfcast.core.machine.cluster import Cluster
from perfcast.core.mode import Method, Mode
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.prediction.plan.by_text import read_asked_plan
from perfcast.prediction.plan.captured_memory import captured_memory, leaves_model_whole
from perfcast.prediction.plan.memory import estimate_plan_memory
from perfcast.prediction.recommendations.bounds import find_bound_recommendations
from perfcast.prediction.recommendations.way_out import with_way_out
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.alone import forecast_alone, is_alone
from perfcast.prediction.step.assumptions import list_beyond_positions, list_plan_assumptions
from perfcast.prediction.step.capture import replica_of
from perfcast.prediction.step.constants import StepConstants
from perfcast.prediction.step.interval import describe_stalls, interval_of_step
from perfcast.prediction.step.priced import PricedStep, price_planned
from perfcast.prediction.step.resolve import resolve_step
from perfcast.prediction.step.runs import count_runs, relative_interval, seconds_by_provenance
from perfcast.prediction.step.work import PlannedStep, plan_step

if TYPE_CHECKING:
    from perfcast.simulate.stragglers import Slowdowns


def predict_plan(
    model: str | Transformer,
    cluster: str | Cluster,
    plan: str | Plan,
    *,
    batch_size: int | None = None,
    micro_batch_size: int | None = None,
    mode: Mode = "train",
    training: Training | None = None,
    dtype: str = AUTO,
    kv_cache_dtype: str | None = None,
    framework: str | None = None,
    compiles: bool = False,
    sequence_length: int | None = None,
    cost_model: str | CostModel | None = None,
    method: Method = "simulated",
    stragglers: Slowdowns | None = None,
    with_spans: bool = False,
    recommendations: bool = True,
    memory: bool = True,
    constants: StepConstants | None = None,
    notes: tuple[str, ...] = (),
) -> PlanForecast:
    """Forecast one step of a model under a plan.

    A transformer is described by its sizes; anything else is captured, and its graph cut by the plan.
    Arguments are those of ``PlanRequest``.

    Args:
        plan: A Plan, or a text such as ``'tp=8,pp=4,zero=1'``; data parallelism and micro-batches then follow
            from the cluster's devices and the batch.
        batch_size: Sequences of a step, over all devices; None: the plan's own, or enough to fill it.
        micro_batch_size: Of one forward; None: the plan's own, or a replica's batch (in a pipeline 1).

    Raises:
        InputError: Unknown names, a plan that model, framework or cluster cannot follow; the message states
            the equation.
    """
    asked = read_asked_plan(
        plan, cluster, model, mode=mode, batch_size=batch_size, micro_batch_size=micro_batch_size
    )
    return predict_step(
        PlanRequest(
            model=model,
            cluster=asked.cluster,
            plan=asked.plan,
            recompute_is_open=asked.recompute_is_open,
            mode=mode,
            training=training,
            dtype=dtype,
            kv_cache_dtype=kv_cache_dtype,
            framework=framework,
            compiles=compiles,
            sequence_length=sequence_length,
            cost_model=cost_model,
            method=method,
            stragglers=stragglers,
            with_spans=with_spans,
            recommendations=recommendations,
            memory=memory,
            constants=constants,
            notes=(*notes, *asked.notes),
        )
    )


def predict_step(request: PlanRequest) -> PlanForecast:
    """Forecast the step that is asked for.

    Raises:
        InputError: As ``predict_plan``.
    """
    step = resolve_step(request)
    if is_alone(step):
        return forecast_alone(step, request)
    return forecast_step(price_planned(plan_step(step)), request)


def forecast_step(priced: PricedStep, request: PlanRequest) -> PlanForecast:
    """The step's time, memory, interval and what would help, and what all that rests on.

    Args:
        priced: The step of the request (``price_request``).

    Raises:
        PlanError: A plan that the framework cannot follow.
    """
    planned, prices, step = priced.planned, priced.prices, priced.planned.step
    if is_alone(step):
        return forecast_alone(step, request)
    work, timer, device = planned.work, step.timer, step.device
    time = priced.time(with_spans=request.with_spans)
    busiest = time.ranks[0]
    runs = count_runs(work, busiest.stage)
    low, high = relative_interval(runs, prices, busiest, timer.interval_widening, timer.error_of(work))
    if step.training is not None:
        low, high = interval_of_step(
            work, prices, time, device, step.cluster, step.training, timer.interval_widening
        )
    effect = None
    if request.stragglers is not None:
        effect = timer.stragglers(work, prices.seconds, request.stragglers, time.step_seconds)
    found: tuple[BoundRecommendation, ...] = (
        find_bound_recommendations(priced, time, effect) if request.recommendations else ()
    )
    memory = _memory(planned) if request.memory else None
    return PlanForecast(
        model=step.model.name,
        cluster=step.cluster.name,
        device=device.name,
        num_devices=step.cluster.num_devices,
        mode=step.mode,
        method=timer.method,
        plan=step.plan,
        training=step.training,
        dtype=step.dtype,
        sequence_length=planned.sequence_length,
        cost_model=step.cost_model.name,
        time=time,
        step_seconds_low=low * time.step_seconds,
        step_seconds_high=high * time.step_seconds,
        num_tokens=work.num_tokens,
        flops=work.flops,
        recompute_flops=work.recompute_flops,
        peak_flops_per_second=device.peak_flops_per_second(step.arithmetic, matrix_units=True),
        parameter_count=planned.parameter_count,
        program=step.program,
        memory=memory,
        stragglers=effect,
        recommendations=found,
        seconds_by_provenance=seconds_by_provenance(runs, prices),
        assumptions=(
            *list_plan_assumptions(planned, memory),
            *list_beyond_positions(planned),
            *describe_stalls(step.training, step.plan, time.step_seconds),
            *step.notes,
            *request.notes,
        ),
        defaults=step.defaults,
    )


def _memory(planned: PlannedStep) -> PlanMemory | None:
    """Of the worst stage; None of a captured model that the plan cuts, of which no closed form is known."""
    step = planned.step
    if not step.model.has_sizes:
        if not leaves_model_whole(step.plan):
            return None
        return captured_memory(replica_of(step), step.device, step.plan, step.training)
    held = estimate_plan_memory(
        step.model,
        step.device,
        step.plan,
        program=step.program,
        mode=step.mode,
        training=step.training,
        precision=step.precision,
        sequence_length=planned.sequence_length,
    )
    return with_way_out(held, step.model.sizes, step.device)
