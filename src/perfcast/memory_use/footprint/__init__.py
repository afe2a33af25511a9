"""The memory of a step under a plan, in closed form; one plan is a table of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from perfcast.core.forecast.footprint import Footprint, StageFootprint, Term
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.precision import Precision
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.frameworks.choice import DEFAULT_SERVING
from perfcast.frameworks.load import load_inference_profiles, training_profile_of
from perfcast.frameworks.profile import TrainingProfile
from perfcast.memory_use.allocator.context import bytes_beside_allocator
from perfcast.memory_use.footprint.activations import lay_out
from perfcast.memory_use.footprint.columns import (
    FootprintColumns,
    footprint_columns,
    stage_footprints,
    whole_stage,
)
from perfcast.memory_use.footprint.selective import saved_tensors
from perfcast.memory_use.footprint.serving import ServingSetting, serving_stages
from perfcast.memory_use.footprint.setting import Setting, workspace_bytes
from perfcast.memory_use.footprint.spread import SERVING, load_spread

__all__ = [
    "FootprintColumns",
    "device_bytes_of_plans",
    "estimate_footprint",
    "estimate_serving_footprint",
    "footprint_columns",
]


def estimate_footprint(
    model: Transformer,
    plan: Plan,
    training: Training,
    sequence_length: int,
    *,
    device: Device | None = None,
    profile: TrainingProfile | None = None,
) -> Footprint:
    """Peak memory of a rank of each pipeline stage.

    Args:
        device: Whose libraries keep workspaces and whose driver a context; without one they are left out.
        profile: Of the program; None takes that of the training's framework.

    Raises:
        PlanError: A plan that cannot cut the model; the message states the equation.
    """
    if profile is None:
        return _kept_footprint(model, plan, training, sequence_length, device)
    return _footprint(model, plan, training, sequence_length, device, profile)


@lru_cache(maxsize=64)
def _kept_footprint(
    model: Transformer, plan: Plan, training: Training, sequence_length: int, device: Device | None
) -> Footprint:
    """Of one forecast several ask: what it recomputes, its memory, and the way out."""
    return _footprint(model, plan, training, sequence_length, device, training_profile_of(training))


def _footprint(
    model: Transformer,
    plan: Plan,
    training: Training,
    sequence_length: int,
    device: Device | None,
    profile: TrainingProfile,
) -> Footprint:
    notes = _assumptions(model, plan, training, device, profile)
    setting = Setting(model, training, profile, sequence_length, device)
    if profile.memory is None:
        whole = whole_stage(setting, plan)
        return _with_spread((whole,), training.framework, _context_bytes(device, plan), notes)
    stages = stage_footprints(setting, plan)
    footprint = _with_spread(stages, training.framework, _context_bytes(device, plan), notes)
    return replace(footprint, layer_terms=_layer_terms(setting, plan))


def device_bytes_of_plans(
    model: Transformer,
    plans: Sequence[Plan],
    training: Training,
    sequence_length: int,
    *,
    device: Device | None = None,
) -> list[int | None]:
    """What each plan takes of a device's memory, as ``estimate_footprint`` has it; None of one that cannot
    cut the model."""
    if not plans:
        return []
    try:
        columns = footprint_columns(model, to_table(plans), training, sequence_length, device=device)
    except PlanError:
        if len(plans) == 1:
            return [None]
        alone = (
            device_bytes_of_plans(model, [plan], training, sequence_length, device=device) for plan in plans
        )
        return [found for (found,) in alone]
    return [int(found) for found in columns.device_bytes.tolist()]


def _layer_terms(setting: Setting, plan: Plan) -> tuple[Term, ...]:
    """What one layer saves, of the kind with experts where there is one."""
    model, training = setting.model, setting.training
    layout = lay_out(plan, training, setting.sequence_length)
    saved = saved_tensors(
        model, plan, training, setting.profile, layout, has_experts=model.experts is not None
    )
    source = "Korthikanti et al., MLSys 2023, section 4.1"
    return tuple(
        Term(tensor.name, Category.ACTIVATION, tensor.num_bytes, "of one layer and micro-batch", source)
        for tensor in saved
    )


def estimate_serving_footprint(
    model: Transformer,
    plan: Plan,
    precision: Precision,
    sequence_length: int,
    *,
    is_decode: bool,
    device: Device | None = None,
    framework: str = DEFAULT_SERVING,
) -> Footprint:
    """Memory of a rank of each stage while it answers ``plan.micro_batch_size`` sequences.

    Args:
        sequence_length: Of the prompt; for decode, tokens in the cache.
        framework: Whose program answers: how many tokens it reads in a step.

    Raises:
        PlanError: A plan that cannot cut the model.
    """
    profile = load_inference_profiles()[framework]
    most = profile.most_step_tokens(device) if model.is_causal else None
    setting = ServingSetting(model, precision, sequence_length, is_decode, workspace_bytes(device), most)
    stages = serving_stages(setting, plan)
    read = "logits of every position that is computed"
    if most is not None:
        read = f"prompts are read in steps of at most {most:,} tokens ({framework})"
    notes = ("the cache holds exactly the tokens so far", read)
    return _with_spread(stages, SERVING, _context_bytes(device, plan), notes)


def _with_spread(
    stages: tuple[StageFootprint, ...], framework: str, context_bytes: int, assumptions: tuple[str, ...]
) -> Footprint:
    worst = max((stage.peak for stage in stages), key=lambda peak: peak.num_bytes)
    spread = load_spread(framework)
    low, high = spread.bounds(worst.terms)
    return Footprint(
        stages=stages,
        peak_bytes_low=low,
        peak_bytes_high=high,
        reserved_bytes=round(worst.num_bytes * spread.reserved),
        reserved_bytes_low=low,
        reserved_bytes_high=round(high * spread.reserved_high),
        context_bytes=context_bytes,
        assumptions=assumptions,
    )


def _context_bytes(device: Device | None, plan: Plan) -> int:
    """Of the driver and of one communicator for each axis, on the vendors whose contexts were measured."""
    return int(bytes_beside_allocator(device, to_table([plan]).num_axes)[0])


def _assumptions(
    model: Transformer, plan: Plan, training: Training, device: Device | None, profile: TrainingProfile
) -> tuple[str, ...]:
    notes = [f"memory as {training.framework} keeps it; a step in steady state"]
    if profile.memory is not None and profile.memory.assumption:
        notes.append(profile.memory.assumption)
    if training.precision.products.is_narrow:
        notes.append(
            "weights are counted as in bf16: fp8 as it lies and transposed takes as much (Megatron-LM: "
            f"--fp8-param-gather); copies in {training.dtype} beside bf16 weights are not counted"
        )
    if device is not None and device.vendor != "nvidia":
        notes.append(f"no context of a driver was measured on devices of {device.vendor}: none is counted")
    if plan.context_parallel > 1:
        notes.append(f"context parallelism by {plan.context_communication}")
    if model.experts is not None:
        even = plan.expert_load == 1
        notes.append(
            "tokens spread evenly over the experts"
            if even
            else f"the busiest rank's experts have {plan.expert_load:g} times the mean of all rows"
        )
    return tuple(notes)
