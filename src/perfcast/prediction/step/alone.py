"""The step of a plan of one device whose program is the model's own modules: the forecast of that device.

The same question as without a plan, so the same answer: what the captured graph's operations take, added up.
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.forecast.device import Forecast
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.plan import PlanForecast, RankTime, StepTime
from perfcast.errors import PlanError
from perfcast.prediction.one_device.predict import predict_one_device
from perfcast.prediction.plan.captured_memory import memory_from_forecast
from perfcast.prediction.request.one_device import OneDeviceRequest
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.capture import replica_of
from perfcast.prediction.step.resolve import ResolvedStep


def is_alone(step: ResolvedStep) -> bool:
    """Whether one device runs the model's own modules."""
    return step.program.is_captured and step.plan.world_size == 1


def forecast_alone(step: ResolvedStep, request: PlanRequest) -> PlanForecast:
    """The forecast of the one device, as that of a plan.

    Raises:
        InputError: A model that cannot be captured; stragglers, for which one device cannot wait.
    """
    if request.stragglers is not None:
        raise PlanError("stragglers: one device waits for no other")
    asked = OneDeviceRequest(workload=replica_of(step), device=step.device, cost_model=step.cost_model)
    found = predict_one_device(asked)
    length = found.sequence_length or 1
    tokens = found.batch_size * (1 if step.mode == "decode" else length)
    return PlanForecast(
        model=step.model.name,
        cluster=step.cluster.name,
        device=step.device.name,
        num_devices=1,
        mode=step.mode,
        method=step.timer.method,
        plan=step.plan,
        training=step.training,
        dtype=found.dtype,
        sequence_length=length,
        cost_model=found.cost_model,
        time=StepTime(found.step_seconds, (RankTime(0, 0, 1, seconds_by_cause(found)),)),
        step_seconds_low=found.step_seconds_low,
        step_seconds_high=found.step_seconds_high,
        num_tokens=tokens,
        flops=found.flops,
        recompute_flops=found.recompute_flops,
        peak_flops_per_second=found.peak_flops_per_second,
        parameter_count=found.parameter_count,
        program=found.program,
        memory=_memory(step, found) if request.memory else None,
        seconds_by_provenance=found.seconds_by_provenance,
        assumptions=(*found.assumptions, *request.notes),
        defaults=step.defaults,
    )


def seconds_by_cause(found: Forecast) -> dict[str, float]:
    """Where the step goes; the causes add up to it."""
    recompute = sum(
        seconds
        for node, seconds in zip(found.graph.nodes, found.node_seconds, strict=True)
        if node.recomputed
    )
    optimizer, host = found.seconds_by_phase.get("optimizer", 0.0), found.exposed_host_seconds
    compute = found.step_seconds - recompute - optimizer - host
    causes = {"compute": compute, "recompute": recompute, "optimizer": optimizer, "host": host}
    return {cause: seconds for cause, seconds in causes.items() if seconds}


def _memory(step: ResolvedStep, found: Forecast) -> PlanMemory:
    memory = memory_from_forecast(found, step.device, step.plan, step.training)
    return replace(memory, defaults=step.defaults)
