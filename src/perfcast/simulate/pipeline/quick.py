"""A training step played without a program: the same times as ``build`` and the engine give.

A stage waits for others only where their messages arrive. The steps of its schedule are taken in an order in
which these are there (``simulate.schedule.order``); what a stage's compute does between two arrivals is
decided by its own host and data stream, which are followed beside it (``stage_streams``, ``data_stream``):

    start of a unit = max(end of the unit before it, launch, gather, messages, what blocks the stage)
    end of a unit   = start + seconds, longer by what its data stream runs beside it (a, b: slowdowns)

With d seconds of compute and r of collectives that are ready, both run at the rates 1 / a and 1 / b until the
first is done, after min(a d, b r). That is what the engine's events come to, at a fraction of their cost;
there is no critical path and no timeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from perfcast.core.plan import Schedule
from perfcast.core.work import StepWork
from perfcast.errors import PlanError
from perfcast.simulate.combine import slower
from perfcast.simulate.part_times import PartTimes
from perfcast.simulate.passes import QUICK_PASSES
from perfcast.simulate.pipeline.build import first_passes, last_gradients
from perfcast.simulate.pipeline.stage_streams import Awaited, StageStreams, Task
from perfcast.simulate.pipeline.units import SideWork, units_of
from perfcast.simulate.schedule import Actions, inference_actions, stage_actions
from perfcast.simulate.schedule.order import order_steps

#: A step of a route: its stage, which of the route's patterns it runs, the numbers of the messages that it
#: needs, and of those that it makes the numbers and the stages that take them.
_RouteStep = tuple[int, int, tuple[int, ...], tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Passes that are alike: of one stage, kinds and chunks.

    Attributes:
        is_first, is_last: Of each action, whether it is the chunk's first pass of its kind, and the last one
            that makes gradients of weights.
    """

    stage: int
    actions: Actions
    is_first: tuple[bool, ...]
    is_last: tuple[bool, ...]


@dataclass(frozen=True)
class _Route:
    """All steps of a schedule, in an order in which they can be computed."""

    steps: tuple[_RouteStep, ...]
    patterns: tuple[_Pattern, ...]


def play_schedule(
    work: StepWork,
    times: PartTimes,
    *,
    is_forward_only: bool = False,
    rank_slowdowns: Sequence[float] | None = None,
) -> tuple[float, list[dict[str, float]], int]:
    """Seconds of the step, of each stage by cause (they add up to the step), and the number of tasks played.

    Args:
        rank_slowdowns: Of each stage, by what its compute takes longer.

    Raises:
        PlanError: Slowdowns of another number of stages, or numbers for which the schedule does not exist.
    """
    plan, num_stages = work.plan, len(work.stages)
    slowdowns = [1.0] * num_stages if rank_slowdowns is None else list(rank_slowdowns)
    if len(slowdowns) != num_stages:
        raise PlanError(f"{len(slowdowns)} slowdowns of ranks for {num_stages} stages")
    QUICK_PASSES.check("micro-batches times stages, played one by one:", plan.num_passes, PlanError)
    route = _route(
        plan.schedule, num_stages, plan.num_micro_batches, plan.virtual_stages_per_rank, is_forward_only
    )
    costs = [_Cost(work, times, pattern, slowdowns[pattern.stage]) for pattern in route.patterns]
    stages = [StageStreams(work, times, number) for number in range(num_stages)]
    for stage, rows in zip(stages, _gathers_of_steps(work, route, costs), strict=True):
        stage.expect(rows)
    _play(route, costs, stages, times.boundary_seconds, blocks=not work.overlaps_boundary)
    tasks = [task for cost in costs for task in cost.tasks]
    optimizers = [
        Task.of(slower(time, factor), number, times)
        for number, (time, factor) in enumerate(zip(times.optimizers, slowdowns, strict=True))
    ]
    step = max(_finish(work, stages, optimizers))
    causes = [stage.waited(step) for stage in stages]
    for task in (*tasks, *optimizers):
        task.add_causes(causes[task.stage])
    return step, causes, sum(task.count for task in tasks)


def _play(
    route: _Route, costs: Sequence[_Cost], stages: Sequence[StageStreams], seconds: float, *, blocks: bool
) -> None:
    """All steps, with their messages of so many seconds, which may block the sender."""
    messages: dict[int, Awaited] = {}
    wires: dict[tuple[int, int], float] = {}
    for number, pattern, awaited, given in route.steps:
        stage, cost = stages[number], costs[pattern]
        arrived = [messages.pop(message) for message in awaited]
        if cost.is_plain:
            end = stage.run(cost.tasks[0], arrived)
        else:
            end = stage.run_all(cost.tasks, cost.reductions, arrived)
        for message, target in given:
            if target == number or not seconds:
                messages[message] = (end, number, end, "")
                continue
            wire = (number, target)
            begun = max(wires.get(wire, 0.0), end)
            wires[wire] = sent = begun + seconds
            messages[message] = (sent, number, begun, "send")
            if blocks:
                stage.blocking.append(messages[message])


def _finish(work: StepWork, stages: Sequence[StageStreams], optimizers: Sequence[Task]) -> list[float]:
    """Ends of stages: behind reductions that were put off, the wait for all stages if any, the optimizer."""
    for stage in stages:
        stage.end_reductions()
    if len(stages) > 1 and any(call.is_collective for held in work.stages for call in held.optimizer):
        together = max(stage.free_at() for stage in stages)
        for stage in stages:
            stage.wait_until(together)
    return [stage.run(task, []) for stage, task in zip(stages, optimizers, strict=True)]


@lru_cache(maxsize=4)
def _route(schedule: Schedule, num_stages: int, count: int, virtual: int, is_forward_only: bool) -> _Route:
    """Of a schedule.

    Raises:
        PlanError: Numbers for which it does not exist.
    """
    if is_forward_only:
        actions = inference_actions(num_stages, count, virtual)
    else:
        actions = stage_actions(schedule, num_stages, count, virtual)
    ordered, _ = order_steps(schedule, actions, virtual)
    edges = [(first_passes(row), last_gradients(row)) for row in actions]
    at = [0] * num_stages
    patterns: dict[object, int] = {}
    found: list[_Pattern] = []
    steps: list[_RouteStep] = []
    for stage, group, awaited, given, targets in ordered:
        place = at[stage]
        at[stage] += len(group)
        key = _pattern_key(stage, group, place, *edges[stage])
        if key not in patterns:
            patterns[key] = len(found)
            places = range(place, place + len(group))
            flags = [tuple([one in edge for one in places]) for edge in edges[stage]]
            found.append(_Pattern(stage, group, *flags))
        steps.append((stage, patterns[key], awaited, tuple(zip(given, targets, strict=True))))
    return _Route(tuple(steps), tuple(found))


def _pattern_key(stage: int, group: Actions, place: int, first: set[int], last: set[int]) -> object:
    """What patterns differ in; most steps are one action that is no first or last of its kind."""
    if len(group) == 1 and place not in first and place not in last:
        return stage, group[0].kind, group[0].chunk
    places = range(place, place + len(group))
    kinds = tuple([(action.kind, action.chunk) for action in group])
    return stage, kinds, tuple([(one in first, one in last) for one in places])


def _gathers_of_steps(
    work: StepWork, route: _Route, costs: Sequence[_Cost]
) -> list[list[tuple[list[float], bool]]]:
    """Of each stage, its steps with work on the data stream: their gathers, and whether reductions follow."""
    puts_off = not (work.overlaps_gradient_reduction or work.reduces_gradients_each_micro_batch)
    rows: list[list[tuple[list[float], bool]]] = [[] for _ in work.stages]
    for stage, pattern, _, _ in route.steps:
        cost = costs[pattern]
        if not cost.is_plain:
            gathers = [task.gather for task in cost.tasks if task.gather]
            rows[stage].append((gathers, cost.reductions and not puts_off))
    return rows


class _Cost:
    """What a pattern's steps run.

    Attributes:
        tasks: In order.
        is_plain: Whether it is one with nothing beside it.
        reductions: Whether any of them reduces gradients.
    """

    __slots__ = ("is_plain", "reductions", "tasks")

    def __init__(self, work: StepWork, times: PartTimes, pattern: _Pattern, slowdown: float) -> None:
        beside = [
            SideWork(
                times.has_gathers and (work.gathers_each_micro_batch or first),
                times.has_reductions and (work.reduces_gradients_each_micro_batch or last),
            )
            for first, last in zip(pattern.is_first, pattern.is_last, strict=True)
        ]
        units = units_of(work, times, pattern.stage, pattern.actions, beside, slowdown)
        self.tasks = [
            Task.of(unit.time, pattern.stage, times, unit.gather.seconds, unit.gradient_reduction.seconds)
            for unit in units
        ]
        self.reductions = any(task.gradient_reduction for task in self.tasks)
        self.is_plain = len(self.tasks) == 1 and not (self.tasks[0].gather or self.reductions)
