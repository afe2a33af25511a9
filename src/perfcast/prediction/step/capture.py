"""Programs, and models that no closed form describes, under a plan: captured whole, then cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfcast.core.work import StepWork
from perfcast.cost.host.issue import host_of
from perfcast.frameworks.load import load_training_profile
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.one_device.host import host_mode
from perfcast.prediction.plan.captured_memory import workload_of
from perfcast.prediction.request.one_device import Request
from perfcast.prediction.step.resolve import ResolvedStep


@dataclass(frozen=True)
class CapturedWork:
    """What a captured model's ranks run, and what the capture says of the model.

    Attributes:
        launch_seconds: Of the host from one kernel to the next, on average over the graph.
    """

    work: StepWork
    sequence_length: int
    parameter_count: int
    launch_seconds: float


def replica_of(step: ResolvedStep) -> Request:
    """What one replica of the plan runs."""
    return workload_of(
        step.model.name,
        step.plan,
        mode=step.mode,
        training=step.training,
        dtype=step.dtype,
        sequence_length=step.sequence_length,
        is_compiled=step.program.is_compiled,
        image_size=step.image_size,
        memory_format=step.memory_format,
    )


def capture_work(step: ResolvedStep) -> CapturedWork:
    """One micro-batch of one replica, captured and cut by the plan.

    Raises:
        InputError: What cannot be captured, or a plan that cannot cut its graph.
    """
    from perfcast.workload.shard import REDUCTIONS, shard_graph

    plan, training = step.plan, step.training
    request = replace(replica_of(step), batch_size=plan.micro_batch_size)
    graph, sizes = build_graph(request, step.device)
    framework = "pytorch" if training is None else training.framework
    wrapper = load_training_profile(framework).kernels.wrapper
    advanced = sizes.batch_size * (1 if step.mode == "decode" else sizes.sequence_length or 1)
    work = shard_graph(graph, plan, reduction=REDUCTIONS[wrapper], num_tokens=advanced)
    host = host_of(step.device, host_mode(request), request.host)
    sequence_length = sizes.sequence_length or 1
    return CapturedWork(work, sequence_length, graph.parameter_count, host.pace_seconds(graph))
