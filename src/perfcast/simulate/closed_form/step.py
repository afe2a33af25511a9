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
    (step,) = closed_form_steps([StepCase(work, times, rank_slowdowns)])
    return step


@dataclass(frozen=True, eq=False)
class StepCase:
    """A step of which several differ in times, not in how they run.

    Attributes:
        rank_slowdowns: Factor on each stage's compute; None: as timed.
    """

    work: StepWork
    times: PartTimes
    rank_slowdowns: Sequence[float] | None = None


def closed_form_steps(cases: Sequence[StepCase]) -> list[StepTime]:
    """Times of steps by formula; those that run alike are columns of one.

    Raises:
        PlanError: Numbers for which a schedule does not exist.
    """
    alike: dict[_Outline, list[int]] = {}
    outlines = [_outline(case.work, case.times, case.rank_slowdowns) for case in cases]
    for at, outline in enumerate(outlines):
        alike.setdefault(outline, []).append(at)
    found: dict[int, StepTime] = {}
    for outline, places in alike.items():
        found.update(zip(places, _time_alike(outline, [cases[at] for at in places]), strict=True))
    return [found[at] for at in range(len(cases))]


def _time_alike(outline: _Outline, cases: Sequence[StepCase]) -> list[StepTime]:
    stages = _stages_of(outline, [case.times for case in cases])
    optimizers = [
        [slower(case.times.optimizers[at], factor) for case in cases] for at, factor in stages.different
    ]
    batches = Batches(
        index=np.arange(len(cases)),
        num_micro_batches=np.array([case.work.plan.num_micro_batches for case in cases]),
        optimizers=[np.array([call_figures(time) for time in times]).T for times in optimizers],
        leads=[np.array([time.lead_seconds for time in times]) for times in optimizers],
        message=np.array([case.times.boundary_seconds for case in cases]),
    )
    steps, causes = time_stages(stages.group, stages.kinds, batches)
    found = []
    for at, (case, step) in enumerate(zip(cases, steps.tolist(), strict=True)):
        by_cause = [
            {cause: value for cause, value in zip(CAUSES, row, strict=True) if value}
            for row in causes[:, :, at].tolist()
        ]
        found.append(StepTime(step, rank_times(case.work, by_cause)))
    return found


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


@dataclass(frozen=True)
class _Outline:
    """What steps have in common that are columns of one.

    Attributes:
        rows: What each different stage runs.
        different: Of each, the first such stage, and by what its compute takes longer.
        factors: All of the latter, rising.
    """

    group: Group
    rows: tuple[tuple[Content, ...], ...]
    different: tuple[tuple[int, float], ...]
    factors: tuple[float, ...]


def stage_columns(work: StepWork, times: PartTimes) -> OnePlan:
    """Passes of all stages of one plan.

    Raises:
        PlanError: A stage without a chunk that the schedule asks for.
    """
    return _stages_of(_outline(work, times, None), [times])


def _outline(work: StepWork, times: PartTimes, rank_slowdowns: Sequence[float] | None) -> _Outline:
    factors = [1.0] * len(work.stages) if rank_slowdowns is None else list(rank_slowdowns)
    rows = [_chunks(work, stage) for stage in range(len(work.stages))]
    keys = [
        (row, id(stage.optimizer), factor)
        for row, stage, factor in zip(rows, work.stages, factors, strict=True)
    ]
    different = list(dict.fromkeys(keys))
    places = [keys.index(key) for key in different]
    cut = Cut(tuple(rows[at] for at in places), tuple(different.index(key) for key in keys))
    return _Outline(
        _group(work, times, cut),
        cut.stages,
        tuple((at, factors[at]) for at in places),
        tuple(sorted(set(factors))),
    )


def _stages_of(outline: _Outline, times: Sequence[PartTimes]) -> OnePlan:
    """Stages of n steps of one outline."""
    group = outline.group
    figures = [
        layer_figures(
            (one.forward, one.backward, one.input_gradient, one.weight_gradient) for one in each.layers
        )
        for each in times
    ]
    layers = np.stack(figures, axis=-1)
    columns = [np.ascontiguousarray(layers[:, :, at]) for at in range(layers.shape[2])]
    sides = np.stack([side_figures(each.layers) for each in times], axis=-1)
    passes = {factor: Passes(group, columns, sides, factor) for factor in outline.factors}
    kinds = tuple(
        stage_passes(group, passes[factor], row)
        for row, (_, factor) in zip(outline.rows, outline.different, strict=True)
    )
    return OnePlan(group, kinds, outline.different)


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
