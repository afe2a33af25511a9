"""A resolved step → what every rank runs: built from the model's sizes, or captured and cut by the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfcast.core.model.weights import count_parameters
from perfcast.core.work import StepWork
from perfcast.frameworks.load import load_inference_profiles
from perfcast.prediction.step.resolve import ResolvedStep


@dataclass(frozen=True)
class PlannedStep:
    """A step and the work of its ranks.

    Attributes:
        sequence_length: Of a sequence; for decode what the cache holds.
        parameter_count: Of the whole model.
    """

    step: ResolvedStep
    work: StepWork
    sequence_length: int
    parameter_count: int

    @property
    def is_captured(self) -> bool:
        """Whether the work comes from a captured graph, not from the model's sizes."""
        return self.step.program.is_captured


def plan_step(step: ResolvedStep) -> PlannedStep:
    """What every rank runs.

    Raises:
        InputError: What cannot be captured; a plan that cannot cut the model, with the equation.
    """
    if step.program.is_captured:
        from perfcast.prediction.step.capture import capture_work

        captured = capture_work(step)
        if step.timer.launch_seconds:
            step = replace(step, timer=replace(step.timer, launch_seconds=captured.launch_seconds))
        return PlannedStep(step, captured.work, captured.sequence_length, captured.parameter_count)
    assert step.sequence_length is not None
    sizes, length = step.model.sizes, step.sequence_length
    if step.training is not None:
        from perfcast.workload.blocks import build_step_work

        work = build_step_work(sizes, step.plan, step.training, length)
    else:
        from perfcast.workload.blocks.step.serving import build_serving_work

        assert step.precision is not None
        profile = load_inference_profiles()[step.program.framework].on_device(step.device)
        work = build_serving_work(
            sizes, step.plan, step.precision, length, is_decode=step.mode == "decode",
            profile=profile, replays_graph=profile.replays_graphs,
        )  # fmt: skip
    return PlannedStep(step, work, length, count_parameters(sizes))
