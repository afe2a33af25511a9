"""A model, a plan and a device → the memory of the worst stage, in closed form."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.dtype import AUTO
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import Mode
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import count_parameters
from perfcast.core.plan import Plan
from perfcast.core.plans.idle import refuse_idle
from perfcast.core.precision import Precision
from perfcast.core.program import StepProgram
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.frameworks.precision import check_training_format, refuse_cache_of_training, serving_precision
from perfcast.memory_use.footprint import estimate_footprint, estimate_serving_footprint
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.plan.captured_memory import captured_memory, leaves_model_whole, workload_of
from perfcast.prediction.plan.cluster import has_cluster
from perfcast.prediction.plan.recomputation import least_recomputation
from perfcast.prediction.program import program_of, training_by
from perfcast.prediction.recommendations.others import cluster_or_none, find_other_recommendations
from perfcast.prediction.recommendations.plan_times import cluster_of_plan
from perfcast.prediction.recommendations.plans import find_plan_recommendations
from perfcast.prediction.recommendations.way_out import with_way_out
from perfcast.prediction.request.memory import PlanMemoryRequest


def predict_plan_memory(
    model: str,
    device: str | Device,
    plan: Plan,
    *,
    mode: Mode = "train",
    training: Training | None = None,
    dtype: str = AUTO,
    kv_cache_dtype: str | None = None,
    framework: str | None = None,
    sequence_length: int | None = None,
    fit: bool = False,
    cluster: str | Cluster | None = None,
) -> PlanMemory:
    """Memory of a transformer under a plan; arguments are those of ``PlanMemoryRequest``.

    Raises:
        InputError: A model that no closed form describes, a plan that cannot cut it, an unknown name.
    """
    return forecast_plan_memory(
        PlanMemoryRequest(
            model=model,
            device=device,
            plan=plan,
            mode=mode,
            training=training,
            dtype=dtype,
            kv_cache_dtype=kv_cache_dtype,
            framework=framework,
            sequence_length=sequence_length,
            fit=fit,
            cluster=cluster,
        )
    )


def forecast_plan_memory(request: PlanMemoryRequest) -> PlanMemory:
    """Memory of the worst stage, and what would make it fit where that is asked for.

    Raises:
        InputError: As ``predict_plan_memory``.
    """
    device = resolve_device(request.device) if isinstance(request.device, str) else request.device
    model, plan, note = read_model(request.model), request.plan, ""
    sizes = model.sizes
    refuse_idle(plan, mode=request.mode, model=sizes)
    chosen = choose_defaults(
        model,
        request.mode,
        device,
        dtype=request.dtype if request.training is None else request.training.dtype,
        sequence_length=request.sequence_length,
    )
    program, length = program_of(request, model, device), model.sequence_length(chosen.sequence_length)
    training = training_by(program, request, chosen.dtype)
    precision = None
    if training is None:
        precision = serving_precision(chosen.dtype, program.framework, request.kv_cache_dtype)
    else:
        refuse_cache_of_training(request.kv_cache_dtype)
        check_training_format(training)
        if request.recompute_is_open and not program.is_captured:
            plan, note = least_recomputation(sizes, plan, training, length, device)
    result = estimate_plan_memory(
        model,
        device,
        plan,
        program=program,
        mode=request.mode,
        training=training,
        precision=precision,
        sequence_length=length,
    )
    result = replace(result, defaults=(*request.defaults, *chosen.notes))
    if note:
        notes = (*result.footprint.assumptions, note)
        result = replace(result, footprint=replace(result.footprint, assumptions=notes))
    if not request.fit:
        return with_way_out(result, sizes, device)
    if training is None:
        raise PlanError("--fit weighs changes of training; inference has none to weigh")
    found = with_way_out(result, sizes, device)
    return _with_recommendations(found, sizes, device, training, request.cluster)


def _cluster_of(plan: Plan, device: Device, asked: str | Cluster | None) -> tuple[Cluster | None, str]:
    """What changes are timed on, and a sentence that says so; None where the catalog has nothing for them.

    Raises:
        PlanError, UnknownNameError: A cluster that was asked for and is none of the plan's.
    """
    if asked is None and plan.world_size > 1 and not has_cluster(device):
        return None, f"not timed: no cluster of {device.name} is known; name one with --cluster"
    try:
        cluster = cluster_of_plan(plan, device, asked)
    except PlanError as error:
        if asked is not None:
            raise
        return None, f"not timed: {error}"
    return cluster, f"timed by the closed form on {cluster.name}:{cluster.num_devices}"


def _cluster_named(asked: str | Cluster, plan: Plan, device: Device) -> Cluster | None:
    """The cluster asked for with another number of devices; None where it has none of that."""
    if isinstance(asked, Cluster):
        return None
    try:
        return cluster_of_plan(plan, device, asked.partition(":")[0])
    except PlanError:
        return None


def _with_recommendations(
    result: PlanMemory, sizes: Transformer, device: Device, training: Training, asked: str | Cluster | None
) -> PlanMemory:
    """With what would lower the need, timed on the cluster asked for or that of the device.

    Raises:
        PlanError, UnknownNameError: A cluster that was asked for and is none of the plan's.
    """
    cluster, note = _cluster_of(result.plan, device, asked)
    prices = resolve_cost_model(None, device)

    def cluster_of(plan: Plan) -> Cluster | None:
        if plan.world_size == result.plan.world_size:
            return cluster
        return cluster_or_none(device, plan) if asked is None else _cluster_named(asked, plan, device)

    seconds, recommendations = find_plan_recommendations(
        sizes,
        result.plan,
        training,
        result.sequence_length,
        device,
        cluster=cluster,
        cost_model=prices,
    )
    others = find_other_recommendations(
        sizes,
        result.plan,
        training,
        result.sequence_length,
        device,
        cluster_of=cluster_of,
        cost_model=prices,
    )
    return replace(result, step_seconds=seconds, timed_on=note, recommendations=(*recommendations, *others))


def estimate_plan_memory(
    model: NamedModel,
    device: Device,
    plan: Plan,
    *,
    program: StepProgram,
    mode: Mode,
    training: Training | None,
    precision: Precision | None,
    sequence_length: int,
) -> PlanMemory:
    """Memory of the worst stage: in closed form, or of the model's own modules tensor by tensor.

    Args:
        training: None for inference.
        precision: Of inference; None for training.

    Raises:
        ModelError: No closed form describes the model.
        PlanError: A plan that the framework cannot follow.
    """
    if program.is_captured and leaves_model_whole(plan):
        workload = workload_of(
            model.name,
            plan,
            mode=mode,
            training=training,
            dtype=_dtype_of(training, precision),
            sequence_length=sequence_length,
            is_compiled=program.is_compiled,
        )
        return captured_memory(workload, device, plan, training)
    if training is not None:
        footprint = estimate_footprint(model.sizes, plan, training, sequence_length, device=device)
    else:
        assert precision is not None
        footprint = estimate_serving_footprint(
            model.sizes,
            plan,
            precision,
            sequence_length,
            is_decode=mode == "decode",
            device=device,
            framework=program.framework,
        )
    return PlanMemory(
        model=model.name,
        device=device.name,
        device_title=device.title,
        mode=mode,
        plan=plan,
        training=training,
        dtype=_dtype_of(training, precision),
        sequence_length=sequence_length,
        parameter_count=count_parameters(model.sizes),
        capacity_bytes=device.memory_bytes,
        footprint=footprint,
        program=program,
        precision=precision,
    )


def _dtype_of(training: Training | None, precision: Precision | None) -> str:
    """Of the products."""
    if training is not None:
        return training.dtype
    assert precision is not None
    return precision.name
