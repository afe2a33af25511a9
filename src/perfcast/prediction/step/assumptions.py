"""What the forecast of a plan takes for granted, in words."""

from __future__ import annotations

from perfcast.core.forecast.footprint import PlanMemory
from perfcast.prediction.one_device.assumptions import about_prices
from perfcast.prediction.step.work import PlannedStep
from perfcast.units import MEGA, format_bytes


def list_beyond_positions(planned: PlannedStep) -> tuple[str, ...]:
    """What is said of a sequence longer than a learned table of positions."""
    if not planned.step.model.has_sizes:
        return ()
    sizes, length = planned.step.model.sizes, planned.sequence_length
    if sizes.positions != "learned" or length <= sizes.max_positions:
        return ()
    return (
        f"{length:,} tokens are more than the model's table of {sizes.max_positions:,} positions: "
        "to be trained so, it needs a longer one, which is left out here",
    )


def list_plan_assumptions(planned: PlannedStep, memory: PlanMemory | None) -> tuple[str, ...]:
    """Sentences without a full stop; what makes the step impossible stands first."""
    step, work, timer = planned.step, planned.work, planned.step.timer
    notes = []
    if memory is not None and not memory.fits:
        notes.append(
            f"the step does not fit: stage {memory.footprint.peak_stage.stage} needs "
            f"{format_bytes(memory.footprint.device_bytes)} of {format_bytes(memory.capacity_bytes)}; "
            "times are those of devices with more memory"
        )
    if planned.is_captured:
        notes.append("captured on one device and cut by the plan; memory under a plan is of transformers")
    notes += work.assumptions
    if step.training is not None:
        notes.append(
            f"{step.training.framework} trains with {step.training.optimizer} in {step.training.dtype}, "
            "in steady state: data are there when the step begins, nothing is logged or saved"
        )
    if timer.launch_seconds:
        notes.append(f"the host issues a kernel every {timer.launch_seconds * MEGA:.1f} µs")
    else:
        notes.append("the host is never late")
    if timer.method == "closed_form":
        notes.append("formulas of the pipeline instead of a simulation of its events")
    notes.append(f"{step.cluster.name}: ranks fill its levels from inside; no other job shares its links")
    notes += about_prices(step.cost_model, step.device)
    notes += [f"{place.name}: {place.note}" for place in (step.device, step.cluster) if place.note]
    return tuple(notes)
