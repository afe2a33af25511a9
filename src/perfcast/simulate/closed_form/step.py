"""The step of one plan by formula: what ``simulate.training`` plays, without events.

Passes are added up beside their gathers and gradient reductions, the schedule's makespan is a formula of the
passes of each stage, and what of the last gradient reductions no backward hides stands behind it, with the
optimizer. It is the closed form of many plans (``pipeline``) for n = 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.forecast.plan import CAUSES, StepTime
from perfcast.core.operation import Operation
from perfcast.core.work import StepWork
from perfcast.simulate.closed_form.figures import call_figures, layer_figures, side_figures
from perfcast.simulate.closed_form.group import Group
from perfcast.simulate.closed_form.passes import Passes
from perfcast.simulate.closed_form.pipeline import Batches, time_stages
from perfcast.simulate.closed_form.stages import StageKind, stage_passes
from perfcast.simulate.combine import slower
from perfcast.simulate.part_times import PartTimes, time_parts
from perfcast.simulate.pipeline.units import chunk_of
from perfcast.simulate.training import is_forward_only, rank_times
from perfcast.workload.plan_columns.cuts import Content, Cut


def closed_form_step(
    work: StepWork,
    seconds: Mapping[Operation, float],
    *,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
    rank_slowdowns: Sequence[float] | None = None,
) -> StepTime:
    """Time of a step by formula; arguments as of ``simulate_step``.

    Raises:
        PlanError: An operation without a price, or numbers for which the schedule does not exist.
    """
    times = time_parts(work, seconds, launch_seconds=launch_seconds, slowdown=slowdown)
    stages = stage_columns(work, times, rank_slowdowns)
    optimizers = [slower(times.optimizers[at], factor) for at, factor in stages.different]
    batches = Batches(
        index=np.zeros(1, dtype=np.int64),
        num_micro_batches=np.array([work.plan.num_micro_batches]),
        optimizers=[np.array(call_figures(time))[:, None] for time in optimizers],
        leads=[np.array([time.lead_seconds]) for time in optimizers],
        message=np.array([times.boundary_seconds]),
    )
    step, causes = time_stages(stages.group, stages.kinds, batches)
    by_cause = [
        {cause: value for cause, value in zip(CAUSES, row, strict=True) if value}
        for row in causes[:, :, 0].tolist()
    ]
    return StepTime(float(step[0]), rank_times(work, by_cause))


@dataclass(frozen=True, eq=False)
class OnePlan:
    """The stages of one plan's step as columns of one row.

    Attributes:
        kinds: The different stages; ``group.cut.stage_kinds`` says which of them each is.
        different: Of each kind, the first such stage, and by what its compute takes longer.
    """

    group: Group
    kinds: tuple[StageKind, ...]
    different: tuple[tuple[int, float], ...]


def stage_columns(work: StepWork, times: PartTimes, rank_slowdowns: Sequence[float] | None = None) -> OnePlan:
    """Passes of all stages of one plan.

    Raises:
        PlanError: A stage without a chunk that the schedule asks for.
    """
    factors = [1.0] * len(work.stages) if rank_slowdowns is None else list(rank_slowdowns)
    rows = [_chunks(work, stage) for stage in range(len(work.stages))]
    keys = [
        (row, id(stage.optimizer), factor)
        for row, stage, factor in zip(rows, work.stages, factors, strict=True)
    ]
    different = list(dict.fromkeys(keys))
    places = [keys.index(key) for key in different]
    cut = Cut(tuple(rows[at] for at in places), tuple(different.index(key) for key in keys))
    group = _group(work, times, cut)
    layers = layer_figures(
        (one.forward, one.backward, one.input_gradient, one.weight_gradient) for one in times.layers
    )
    columns = [layers[:, :, at, None] for at in range(len(times.layers))]
    sides = side_figures(times.layers)[..., None]
    passes = {factor: Passes(group, columns, sides, factor) for factor in sorted(set(factors))}
    kinds = tuple(stage_passes(group, passes[factors[at]], rows[at]) for at in places)
    return OnePlan(group, kinds, tuple((at, factors[at]) for at in places))


def _chunks(work: StepWork, stage: int) -> tuple[Content, ...]:
    """What a stage runs, of 'dualpipe' its own part and the mirrored one."""
    plan = work.plan
    count = 2 if plan.schedule == "dualpipe" else plan.virtual_stages_per_rank
    rows = (chunk_of(work, stage, chunk) for chunk in range(count))
    return tuple(tuple((run.layer, run.count) for run in row) for row in rows)


def _group(work: StepWork, times: PartTimes, cut: Cut) -> Group:
    gathers, reductions = times.has_gathers, times.has_reductions
    return Group(
        cut=cut,
        schedule=work.plan.schedule,
        virtual=work.plan.virtual_stages_per_rank,
        has_sides=(
            tuple(gathers and bool(layer.gather) for layer in work.layers),
            tuple(gathers and bool(layer.gather_again) for layer in work.layers),
            tuple(reductions and bool(layer.gradient_reduction) for layer in work.layers),
        ),
        gathers_each=work.gathers_each_micro_batch,
        reduces_each=work.reduces_gradients_each_micro_batch,
        overlaps_gather=work.overlaps_gather,
        overlaps_gradient_reduction=work.overlaps_gradient_reduction,
        overlaps_boundary=work.overlaps_boundary,
        host_waits=work.host_waits and times.launch_seconds > 0,
        num_prefetched=work.plan.num_prefetched if work.overlaps_gather else 0,
        updates_together=any(call.is_collective for stage in work.stages for call in stage.optimizer),
        slowdown=times.slowdown,
        is_forward_only=is_forward_only(work),
    )
