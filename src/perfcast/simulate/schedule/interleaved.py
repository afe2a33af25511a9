"""Interleaved 1F1B: every rank holds several chunks of the model."""

from __future__ import annotations

from functools import lru_cache

from perfcast.errors import PlanError
from perfcast.simulate.schedule.action import Action, Actions, Pass


def interleaved(num_stages: int, stage: int, num_micro_batches: int, virtual: int) -> Actions:
    """Micro-batches pass a chunk in groups of as many as there are stages, then the rank's next chunk.

    With p stages and v chunks, stage s runs 2 (p - s - 1) + (v - 1) p forwards ahead, then a forward and a
    backward in turn (Narayanan et al., SC 2021, section 2.2.2; Megatron-LM: pipeline_parallel/schedules.py).

    Raises:
        PlanError: Micro-batches that are no multiple of the stages.
    """
    check_groups(num_stages, num_micro_batches)
    total = num_micro_batches * virtual
    ahead = min(2 * (num_stages - stage - 1) + (virtual - 1) * num_stages, total)

    forwards, backwards = _in_turn(num_stages, total, virtual)
    actions = list(forwards[:ahead])
    for forward, backward in zip(forwards[ahead:], backwards, strict=False):
        actions += forward, backward
    return (*actions, *backwards[total - ahead :])


@lru_cache(maxsize=2)
def _in_turn(num_stages: int, total: int, virtual: int) -> tuple[Actions, Actions]:
    """Forwards and backwards in the order in which every stage runs them."""
    places = [
        (group * num_stages + within % num_stages, within // num_stages)
        for group, within in (divmod(at, num_stages * virtual) for at in range(total))
    ]
    forwards = tuple(Action(Pass.FORWARD, micro_batch, chunk) for micro_batch, chunk in places)
    backwards = tuple(
        Action(Pass.BACKWARD, micro_batch, virtual - 1 - chunk) for micro_batch, chunk in places
    )
    return forwards, backwards


def interleaved_forward(num_stages: int, num_micro_batches: int, virtual: int) -> Actions:
    """Its forwards alone; the last group of micro-batches may be smaller than the stages are many."""
    groups = range(0, num_micro_batches, num_stages)
    return tuple(
        Action(Pass.FORWARD, micro_batch, chunk)
        for first in groups
        for chunk in range(virtual)
        for micro_batch in range(first, min(first + num_stages, num_micro_batches))
    )


def check_groups(num_stages: int, num_micro_batches: int) -> None:
    """Whether micro-batches divide into groups.

    Raises:
        PlanError: They do not.
    """
    rest = num_micro_batches % num_stages
    if rest:
        raise PlanError(
            f"schedule=interleaved passes micro-batches in groups of pp={num_stages}: "
            f"{num_micro_batches} micro-batches mod {num_stages} = {rest}, must be 0"
        )
