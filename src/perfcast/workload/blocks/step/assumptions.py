"""What a reader of a forecast is told about how a step was built."""

from __future__ import annotations

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.frameworks.load import load_training_profile


def assumptions_of(plan: Plan, training: Training) -> tuple[str, ...]:
    """In words, only what applies."""
    profile = load_training_profile(training.framework).kernels
    said = [f"kernels and collectives as {training.framework} runs them ({profile.source})"]
    if plan.zero_stage < 3 and plan.overlaps_gradients and not profile.overlaps_gradients:
        said.append(f"{training.framework} reduces gradients after the last backward, not beside it")
    if plan.zero_stage in (1, 2) and plan.overlaps_weights and not profile.overlaps_weights:
        said.append(f"{training.framework} gathers weights after the update, not beside the next forward")
    if plan.tensor_parallel_inputs > 1:
        said.append("2-D tensor parallelism: ranks that cut outputs are neighbours")
    if plan.schedule == "dualpipe":
        said.append("each rank updates the weights of both parts of the model that it holds")
    return tuple(said)
