"""A training step of a plan, simulated: one rank for every pipeline stage, whose equals do the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcast.core.operation import Operation
from perfcast.core.placement import group_of
from perfcast.core.step_forecast import RankTime, StepTime
from perfcast.core.work import StepWork
from perfcast.errors import PlanError
from perfcast.simulate.engine import play
from perfcast.simulate.part_times import PartTimes, time_parts
from perfcast.simulate.pipeline.build import build_step
from perfcast.simulate.pipeline.causes import seconds_by_cause
from perfcast.simulate.schedule import Actions, stage_actions


def simulate_step(
    work: StepWork,
    seconds: Mapping[Operation, float],
    *,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
    rank_slowdowns: Sequence[float] | None = None,
    with_spans: bool = False,
) -> StepTime:
    """Play all stages, micro-batches and layers of a training step.

    Args:
        seconds: Of one run of each operation of the step.
        launch_seconds: Between two launches of the host; 0: it is always ahead.
        slowdown: Factors of compute and of exchanges while both run on a device.
        rank_slowdowns: Of each stage, by what its compute takes longer than the prices say.
        with_spans: Whether to give timelines.

    Raises:
        PlanError: An operation without a price, or numbers for which the schedule does not exist.
    """
    times = time_parts(work, seconds, launch_seconds=launch_seconds, slowdown=slowdown)
    actions = training_actions(work)
    return play_stages(work, times, actions, rank_slowdowns, with_spans)


def training_actions(work: StepWork) -> tuple[Actions, ...]:
    """Of each stage, by the plan's schedule.

    Raises:
        PlanError: Stages of another number than the plan's.
    """
    plan = work.plan
    if len(work.stages) != plan.pipeline_parallel:
        raise PlanError(f"work of {len(work.stages)} stages for pp={plan.pipeline_parallel}")
    return stage_actions(
        plan.schedule, plan.pipeline_parallel, plan.num_micro_batches, plan.virtual_stages_per_rank
    )


def play_stages(
    work: StepWork,
    times: PartTimes,
    actions: Sequence[Actions],
    rank_slowdowns: Sequence[float] | None = None,
    with_spans: bool = False,
) -> StepTime:
    """Build the program of all stages, play it, and say where the time went."""
    built = build_step(work, times, actions, rank_slowdowns)
    played = play(built.program)
    causes = seconds_by_cause(built, played)
    if rank_slowdowns is not None and max(rank_slowdowns) > 1:
        even = build_step(work, times, actions)
        _charge_stragglers(causes, seconds_by_cause(even, play(even.program)))
    return StepTime(
        played.makespan_seconds,
        rank_times(work, causes),
        num_events=built.program.num_tasks,
    )


def rank_times(work: StepWork, causes: Sequence[Mapping[str, float]]) -> tuple[RankTime, ...]:
    """Of the rank that stands for each stage; that with the most work of its own first."""
    ranks = group_of(work.plan, "pipeline")
    found = [
        RankTime(ranks[stage], stage, work.plan.ranks_per_stage, by_cause)
        for stage, by_cause in enumerate(causes)
    ]
    return tuple(sorted(found, key=lambda rank: rank.seconds_by_cause.get("bubble", 0.0)))


def _charge_stragglers(causes: Sequence[dict[str, float]], even: Sequence[Mapping[str, float]]) -> None:
    """Move what stages wait longer than they would among equally fast ranks to the straggler."""
    for own, before in zip(causes, even, strict=True):
        longer = own.get("bubble", 0.0) - before.get("bubble", 0.0)
        if longer > 0:
            own["bubble"] -= longer
            own["straggler"] = own.get("straggler", 0.0) + longer
