"""Programs, and models that no closed form describes, under a plan: captured whole, then cut."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.work import StepWork
from perfcast.frameworks.load import load_training_profile
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.request.one_device import Request
from perfcast.prediction.step.resolve import ResolvedStep

#: transformers' name of what a plan calls kernels of attention.
_ATTENTION = {"flash": "sdpa", "math": "eager"}


@dataclass(frozen=True)
class CapturedWork:
    """What a captured model's ranks run, and what the capture says of the model."""

    work: StepWork
    sequence_length: int
    parameter_count: int


def capture_work(step: ResolvedStep) -> CapturedWork:
    """One micro-batch of one replica, captured and cut by the plan.

    Raises:
        InputError: What cannot be captured, or a plan that cannot cut its graph.
    """
    from perfcast.workload.shard import REDUCTIONS, shard_graph

    plan, training = step.plan, step.training
    request = Request(
        model=step.model.name,
        mode=step.mode,
        batch_size=plan.micro_batch_size,
        sequence_length=step.sequence_length,
        dtype=step.dtype,
        optimizer="none" if training is None else training.optimizer,
        attention="sdpa" if training is None else _ATTENTION[training.attention],
        recompute=plan.recompute,
    )
    graph, program = build_graph(request, step.device)
    framework = "pytorch" if training is None else training.framework
    wrapper = load_training_profile(framework).kernels.wrapper
    work = shard_graph(graph, plan, reduction=REDUCTIONS[wrapper])
    return CapturedWork(work, program.sequence_length or 1, graph.parameter_count)
