"""What the time of a step depends on: two steps of equal content take equally long."""

from __future__ import annotations

from collections.abc import Hashable

from perfcast.core.work import StepWork
from perfcast.simulate.layer import CallsTime
from perfcast.simulate.part_times import PartTimes


def step_content(work: StepWork, times: PartTimes) -> Hashable:
    """Of a step whose parts take these times; its groups of ranks and operations do not matter any more.

    How gathers and gradient reductions go about matters where there are any.
    """
    plan = work.plan
    gathers = (work.gathers_each_micro_batch, work.overlaps_gather, plan.num_prefetched)
    layers = tuple(
        (
            *map(_numbers, (one.forward, one.backward, one.input_gradient, one.weight_gradient)),
            one.gather,
            one.gather_again,
            one.gradient_reduction,
        )
        for one in times.layers
    )
    return (
        plan.schedule,
        plan.num_micro_batches,
        plan.virtual_stages_per_rank,
        layers,
        tuple(stage.chunks for stage in work.stages),
        tuple(map(_numbers, times.optimizers)),
        any(call.is_collective for stage in work.stages for call in stage.optimizer),
        times.boundary_seconds,
        work.overlaps_boundary,
        work.host_waits,
        times.launch_seconds,
        times.slowdown,
        gathers if times.has_gathers else None,
        (work.reduces_gradients_each_micro_batch, work.overlaps_gradient_reduction)
        if times.has_reductions
        else None,
    )


def _numbers(time: CallsTime) -> Hashable:
    return time.seconds, tuple(time.seconds_by_cause.items()), time.host_seconds, time.lead_seconds
