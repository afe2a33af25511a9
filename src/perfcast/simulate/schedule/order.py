"""The order in which a schedule's actions can be computed one after another, for many pipelines at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcast.core.plan import Schedule
from perfcast.errors import PlanError
from perfcast.simulate.schedule import Actions, Pass, num_parts, part_of, stage_of

_Key = tuple[Pass, int, int]


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """What a stage runs in one go: an action, or two that are joined.

    Attributes:
        awaited: Slots of the messages that it needs; they are free afterwards.
        given: Slots into which its own messages go; ``targets`` are the stages that take them.
    """

    stage: int
    actions: Actions
    awaited: tuple[int, ...]
    given: tuple[int, ...]
    targets: tuple[int, ...]


def order_steps(
    schedule: Schedule, actions: Sequence[Actions], virtual: int
) -> tuple[tuple[ScheduleStep, ...], int]:
    """All steps of a schedule, each behind what it needs, and the number of slots for messages.

    Stages take turns, the last one first, so that few messages are under way.

    Raises:
        PlanError: Stages that wait for each other.
    """
    rows = [list(_groups(row)) for row in actions]
    at = [0] * len(rows)
    slots: dict[_Key, int] = {}
    free: list[int] = []
    steps: list[ScheduleStep] = []
    num_slots = 0
    while any(position < len(row) for position, row in zip(at, rows, strict=True)):
        before = len(steps)
        for stage in reversed(range(len(rows))):
            if at[stage] == len(rows[stage]):
                continue
            group = rows[stage][at[stage]]
            needs, gives, targets = _messages(schedule, len(rows), virtual, stage, group)
            if not all(key in slots for key in needs):
                continue
            awaited = tuple(slots.pop(key) for key in needs)
            free += awaited
            for key in gives:
                if not free:
                    free.append(num_slots)
                    num_slots += 1
                slots[key] = free.pop()
            steps.append(ScheduleStep(stage, group, awaited, tuple(slots[key] for key in gives), targets))
            at[stage] += 1
        if len(steps) == before:
            stuck = next(s for s, position in enumerate(at) if position < len(rows[s]))
            raise PlanError(f"schedule={schedule}: stage {stuck} waits for what is never sent")
    return tuple(steps), num_slots


def _groups(row: Actions) -> Iterator[Actions]:
    at = 0
    while at < len(row):
        width = 2 if row[at].joins_next else 1
        yield row[at : at + width]
        at += width


def _messages(
    schedule: Schedule, num_stages: int, virtual: int, stage: int, group: Actions
) -> tuple[list[_Key], list[_Key], tuple[int, ...]]:
    """Which messages a step needs, which it makes, and the stages that take them."""
    parts = num_parts(schedule, num_stages, virtual)
    needs: list[_Key] = []
    gives: list[_Key] = []
    targets: list[int] = []
    for action in group:
        if action.kind is Pass.WEIGHT_GRADIENT:
            continue
        part = part_of(schedule, num_stages, stage, action.chunk)
        kind, step = (Pass.FORWARD, 1) if action.kind is Pass.FORWARD else (Pass.BACKWARD, -1)
        if 0 <= part - step < parts:
            needs.append((kind, part - step, action.micro_batch))
        if 0 <= part + step < parts:
            gives.append((kind, part, action.micro_batch))
            targets.append(stage_of(schedule, num_stages, part + step, action.chunk))
    return needs, gives, tuple(targets)
