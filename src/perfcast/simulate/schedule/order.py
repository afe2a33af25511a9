"""The order in which a schedule's actions can be computed one after another, for many pipelines at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.plan import Schedule
from perfcast.errors import PlanError
from perfcast.simulate.schedule import Actions, Pass, num_parts, part_of, stage_of


class ScheduleStep(NamedTuple):
    """What a stage runs in one go: an action, or two that are joined.

    Attributes:
        awaited: Numbers of the messages that it needs; each is needed once.
        given: Those of its own messages; ``targets`` are the stages that take them.
    """

    stage: int
    actions: Actions
    awaited: tuple[int, ...]
    given: tuple[int, ...]
    targets: tuple[int, ...]


def order_steps(
    schedule: Schedule, actions: Sequence[Actions], virtual: int
) -> tuple[tuple[ScheduleStep, ...], int]:
    """All steps of a schedule, each behind what it needs, and how many messages are under way at most.

    A stage goes on until it waits, or until it has made what another one waits for: that goes on first, so
    that few messages are under way.

    Raises:
        PlanError: Stages that wait for each other.
    """
    rows = [iter(_steps_of(schedule, len(actions), virtual, *row)) for row in enumerate(actions)]
    found: list[ScheduleStep] = []
    arrived: set[int] = set()
    waiting: dict[int, tuple[int, ScheduleStep]] = {}
    turns = [(stage, next(row, None)) for stage, row in enumerate(rows)]
    while turns:
        stage, step = turns.pop()
        while step is not None:
            if step.awaited and not arrived.issuperset(step.awaited):
                waiting[next(key for key in step.awaited if key not in arrived)] = stage, step
                break
            found.append(step)
            arrived.difference_update(step.awaited)
            arrived.update(step.given)
            ahead, step = step, next(rows[stage], None)
            if woken := [waiting.pop(key) for key in ahead.given if key in waiting]:
                turns += [(stage, step), *woken]
                break
    if waiting:
        stuck = min(stage for stage, _ in waiting.values())
        raise PlanError(f"schedule={schedule}: stage {stuck} waits for what is never sent")
    return tuple(found), max(accumulate(len(step.given) - len(step.awaited) for step in found), default=0)


def _steps_of(
    schedule: Schedule, num_stages: int, virtual: int, stage: int, row: Actions
) -> Iterable[ScheduleStep]:
    """A stage's steps in order. A message is numbered by its micro-batch, its direction and the part of the
    model that makes it."""
    needs, gives, targets = _messages(schedule, num_stages, virtual, stage, row)
    if not any(action.joins_next for action in row):
        return map(ScheduleStep, (stage,) * len(row), zip(row, strict=True), needs, gives, targets)
    found, at = [], 0
    while at < len(row):
        own = slice(at, at + 1 + row[at].joins_next)
        joined = [sum(each[own], ()) for each in (needs, gives, targets)]
        found.append(ScheduleStep(stage, row[own], *joined))
        at = own.stop
    return found


def _messages(
    schedule: Schedule, num_stages: int, virtual: int, stage: int, row: Actions
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Of each action the messages that it needs and makes, at most one each, and the stage that takes it."""
    parts = num_parts(schedule, num_stages, virtual)
    num_chunks = max((action.chunk for action in row), default=0) + 1
    edges = np.full((3, 2, num_chunks), -1)
    for chunk in range(num_chunks):
        part = part_of(schedule, num_stages, stage, chunk)
        for side, step in ((0, 1), (1, -1)):
            if 0 <= part - step < parts:
                edges[0, side, chunk] = side * parts + part - step
            if 0 <= part + step < parts:
                taker = stage_of(schedule, num_stages, part + step, chunk)
                edges[1:, side, chunk] = side * parts + part, taker
    is_backward = np.array([action.kind is not Pass.FORWARD for action in row], dtype=np.int64)
    needed, given, target = edges[:, is_backward, np.array([action.chunk for action in row], dtype=np.int64)]
    first = 2 * parts * np.array([action.micro_batch for action in row], dtype=np.int64)
    has_none = np.array([action.kind is Pass.WEIGHT_GRADIENT for action in row])
    needs = np.where(has_none | (needed < 0), -1, first + needed)
    gives = np.where(has_none | (given < 0), -1, first + given)
    return _at_most_one(needs), _at_most_one(gives), _at_most_one(np.where(gives < 0, -1, target))


def _at_most_one(numbers: Integers) -> list[tuple[int, ...]]:
    """Each number by itself; below 0: none."""
    return [(number,) if number >= 0 else () for number in numbers.tolist()]
