"""The mildest change with which a plan would fit, as a clause: for the first line of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_serving_footprint
from perfcast.prediction.recommendations.others import find_other_recommendations
from perfcast.prediction.recommendations.plans import find_plan_recommendations
from perfcast.units import format_bytes

_LARGEST_TENSOR_PARALLEL = 64


def with_way_out(memory: PlanMemory, model: Transformer, device: Device) -> PlanMemory:
    """The memory of a plan, with what would make it fit where it does not."""
    return memory if memory.fits else replace(memory, way_out=_way_out(memory, model, device))


def _way_out(memory: PlanMemory, model: Transformer, device: Device) -> str:
    if memory.training is None:
        return _of_serving(memory, model, device)
    _, found = find_plan_recommendations(
        model, memory.plan, memory.training, memory.sequence_length, device, cluster=None
    )
    fitting = [one for one in found if one.fits]
    if not fitting:
        return _of_others(memory, memory.training, model, device)
    mildest = min(fitting, key=lambda one: (len(one.changes), -one.device_bytes))
    return f"{' with '.join(mildest.changes)} would ({format_bytes(mildest.device_bytes)})"


def _of_others(memory: PlanMemory, training: Training, model: Transformer, device: Device) -> str:
    """The same training on more devices, else the mildest other one."""
    others = find_other_recommendations(model, memory.plan, training, memory.sequence_length, device)
    fitting = [one for one in others if one.fits]
    if not fitting:
        return "no change of up to three keys would; more devices and a larger tp or pp may"
    best = next((one for one in fitting if not one.caveat), fitting[0])
    caveat = f"; {best.caveat}" if best.caveat else ""
    return f"{' with '.join(best.changes)} would ({format_bytes(best.device_bytes)}{caveat})"


def _of_serving(memory: PlanMemory, model: Transformer, device: Device) -> str:
    """Fewer sequences at once, else weights cut further over more devices."""
    assert memory.precision is not None
    for words, plan in _serving_variants(memory.plan):
        try:
            held = estimate_serving_footprint(
                model,
                plan,
                memory.precision,
                memory.sequence_length,
                is_decode=memory.mode == "decode",
                device=device,
                framework=memory.program.framework,
            ).device_bytes
        except PlanError:
            continue
        if held <= device.memory_bytes:
            return f"{words} would ({format_bytes(held)})"
    return "a shorter sequence, or weights of fewer bits, may"


def _serving_variants(plan: Plan) -> Iterator[tuple[str, Plan]]:
    size = plan.micro_batch_size
    while size > 1:
        size //= 2
        fewer = replace(plan, micro_batch_size=size)
        yield f"--batch-size {fewer.global_batch_size}", fewer
    width = plan.tensor_parallel
    while width < _LARGEST_TENSOR_PARALLEL:
        width *= 2
        wider = replace(plan, tensor_parallel=width)
        yield f"tp={width} on {wider.world_size} devices", wider
