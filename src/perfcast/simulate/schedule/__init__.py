"""Pipeline schedules: in which order each stage runs which pass of which micro-batch.

Pure functions of the numbers of stages, micro-batches and chunks; durations play no part.
"""

from __future__ import annotations

from functools import lru_cache

from perfcast.core.plan import SCHEDULES
from perfcast.errors import UnknownNameError
from perfcast.simulate.schedule.action import Action, Actions, Pass
from perfcast.simulate.schedule.dualpipe import dualpipe
from perfcast.simulate.schedule.interleaved import interleaved, interleaved_forward
from perfcast.simulate.schedule.one_by_one import (
    forward_only,
    gpipe,
    one_forward_one_backward,
    zero_bubble,
)

__all__ = [
    "Action",
    "Actions",
    "Pass",
    "inference_actions",
    "num_parts",
    "part_of",
    "stage_actions",
    "stage_of",
]


@lru_cache(maxsize=8)
def stage_actions(
    schedule: str, num_stages: int, num_micro_batches: int, virtual: int = 1
) -> tuple[Actions, ...]:
    """Of each stage, its actions in order.

    Raises:
        UnknownNameError: Not a schedule.
        PlanError: Numbers for which the schedule does not exist; the message states the equation.
    """
    stages = range(num_stages)
    match schedule:
        case "gpipe":
            return (gpipe(num_micro_batches),) * num_stages
        case "1f1b":
            return tuple(one_forward_one_backward(num_stages, s, num_micro_batches) for s in stages)
        case "interleaved":
            return tuple(interleaved(num_stages, s, num_micro_batches, virtual) for s in stages)
        case "zero_bubble":
            return tuple(zero_bubble(num_stages, s, num_micro_batches) for s in stages)
        case "dualpipe":
            return tuple(dualpipe(num_stages, s, num_micro_batches) for s in stages)
    raise UnknownNameError("schedule", schedule, SCHEDULES, f"Known: {', '.join(SCHEDULES)}.")


def inference_actions(num_stages: int, num_micro_batches: int, virtual: int = 1) -> tuple[Actions, ...]:
    """Forwards alone, in the same order on every stage."""
    if virtual == 1:
        return (forward_only(num_micro_batches),) * num_stages
    return (interleaved_forward(num_stages, num_micro_batches, virtual),) * num_stages


def part_of(schedule: str, num_stages: int, stage: int, chunk: int) -> int:
    """Which part of the model, in the order of its forward, a chunk of a stage is."""
    if schedule == "dualpipe":
        return num_stages - 1 - stage if chunk else stage
    return chunk * num_stages + stage


def stage_of(schedule: str, num_stages: int, part: int, chunk: int) -> int:
    """The stage that runs a part of the model, for micro-batches that pass through a chunk of this number."""
    return num_stages - 1 - part if schedule == "dualpipe" and chunk else part % num_stages


def num_parts(schedule: str, num_stages: int, virtual: int = 1) -> int:
    """Parts that a micro-batch passes."""
    return num_stages if schedule == "dualpipe" else num_stages * virtual
