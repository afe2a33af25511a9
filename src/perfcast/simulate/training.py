"""A training step of a plan, simulated: one rank for every pipeline stage, whose equals do the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.forecast.plan import RankTime, StepTime
from perfcast.core.operation import Operation
from perfcast.core.plans.placement import group_of
from perfcast.core.work import StepWork
from perfcast.errors import PlanError
from perfcast.simulate.critical_path import critical_path
from perfcast.simulate.engine import Played, play
from perfcast.simulate.layer import OWN_WORK
from perfcast.simulate.part_times import PartTimes, time_parts
from perfcast.simulate.passes import PASSES
from perfcast.simulate.pipeline.build import Built, build_step
from perfcast.simulate.pipeline.causes import seconds_by_cause
from perfcast.simulate.pipeline.quick import play_schedule
from perfcast.simulate.pipeline.spans import path_seconds, step_spans
from perfcast.simulate.schedule import Actions, inference_actions, stage_actions


def simulate_step(
    work: StepWork,
    seconds: Mapping[Operation, float],
    *,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
    rank_slowdowns: Sequence[float] | None = None,
    with_spans: bool = False,
    with_path: bool = True,
) -> StepTime:
    """Play all stages, micro-batches and layers of a step; forwards alone where no layer has a backward.

    Args:
        seconds: Of one run of each operation of the step.
        launch_seconds: Between two launches of the host; 0: it is always ahead.
        slowdown: Factors of compute and of communication while both run on a device.
        rank_slowdowns: Of each stage, by what its compute takes longer than the prices say.
        with_spans: Whether to give timelines.
        with_path: Whether to give the critical path; without it and timelines the step is played some ten
            times faster.

    Raises:
        PlanError: An operation without a price, or numbers for which the schedule does not exist.
    """
    times = time_parts(work, seconds, launch_seconds=launch_seconds, slowdown=slowdown)
    if not (with_spans or with_path):
        return play_quickly(work, times, rank_slowdowns)
    even = None
    if rank_slowdowns is not None and max(rank_slowdowns) > 1:
        even = play_step(work, times)
    step = play_step(work, times, rank_slowdowns)
    return time_of_played(step, even=even, with_spans=with_spans)


def actions_of(work: StepWork) -> tuple[Actions, ...]:
    """Of each stage, by the plan's schedule; forwards alone where no layer has a backward.

    Raises:
        PlanError: Stages of another number than the plan's, or more passes than are played (``PASSES``).
    """
    plan = work.plan
    if len(work.stages) != plan.pipeline_parallel:
        raise PlanError(f"work of {len(work.stages)} stages for pp={plan.pipeline_parallel}")
    PASSES.check("micro-batches times stages, played one by one:", plan.num_passes, PlanError)
    num_stages, count, virtual = plan.pipeline_parallel, plan.num_micro_batches, plan.virtual_stages_per_rank
    if is_forward_only(work):
        return inference_actions(num_stages, count, virtual)
    return stage_actions(plan.schedule, num_stages, count, virtual)


def is_forward_only(work: StepWork) -> bool:
    """Whether it is a step of inference."""
    return not any(layer.backward for layer in work.layers)


@dataclass(frozen=True)
class PlayedStep:
    """A step played event by event, with what its timeline, its causes and its traces are read off.

    Attributes:
        times: Of the parts of ``work``: its layers, boundaries and optimizers.
        built: The program of all stages.
        played: When its tasks began and ended.
    """

    work: StepWork
    times: PartTimes
    built: Built
    played: Played


def play_step(work: StepWork, times: PartTimes, rank_slowdowns: Sequence[float] | None = None) -> PlayedStep:
    """Build the program of all stages, each with its actions by the plan's schedule, and play it.

    Raises:
        PlanError: Numbers for which the schedule does not exist.
    """
    built = build_step(work, times, actions_of(work), rank_slowdowns)
    return PlayedStep(work, times, built, play(built.program))


def time_of_played(step: PlayedStep, *, even: PlayedStep | None = None, with_spans: bool = False) -> StepTime:
    """Where the time of a played step went.

    Args:
        even: The same step of equally fast ranks: what stages wait longer than there is the stragglers'.
        with_spans: Whether to give timelines.
    """
    built, played = step.built, step.played
    causes = seconds_by_cause(built, played)
    if even is not None:
        _charge_stragglers(causes, seconds_by_cause(even.built, even.played))
    last = built.last_task(played)
    path = critical_path(built.program, played, last)
    return StepTime(
        float(played.ends[last]),
        rank_times(step.work, causes),
        step_spans(step.work, step.times, built, played, path) if with_spans else (),
        path_seconds(step.times, built, played, path),
        built.program.num_tasks,
    )


def play_quickly(work: StepWork, times: PartTimes, rank_slowdowns: Sequence[float] | None = None) -> StepTime:
    """As ``play_step``, without a program: no timeline, no critical path."""
    forward_only = is_forward_only(work)
    step, causes, num_tasks = play_schedule(
        work, times, is_forward_only=forward_only, rank_slowdowns=rank_slowdowns
    )
    if rank_slowdowns is not None and max(rank_slowdowns) > 1:
        _charge_stragglers(causes, play_schedule(work, times, is_forward_only=forward_only)[1])
    return StepTime(step, rank_times(work, causes), num_events=num_tasks)


def rank_times(work: StepWork, causes: Sequence[Mapping[str, float]]) -> tuple[RankTime, ...]:
    """Of the rank that stands for each stage; that with the most work of its own first."""
    ranks = group_of(work.plan, "pipeline")
    found = [
        RankTime(ranks[stage], stage, work.plan.ranks_per_stage, by_cause)
        for stage, by_cause in enumerate(causes)
    ]
    return tuple(sorted(found, key=lambda rank: -sum(rank.seconds_by_cause.get(c, 0.0) for c in OWN_WORK)))


def _charge_stragglers(causes: Sequence[dict[str, float]], even: Sequence[Mapping[str, float]]) -> None:
    """Move what stages wait longer than they would among equally fast ranks to the straggler."""
    for own, before in zip(causes, even, strict=True):
        longer = own.get("bubble", 0.0) - before.get("bubble", 0.0)
        if longer > 0:
            own["bubble"] -= longer
            own["straggler"] = own.get("straggler", 0.0) + longer
