"""One entry of a pipeline schedule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Pass(Enum):
    """What is done with a micro-batch. A backward is run whole, or its gradients of inputs first and those of
    weights, for which no other stage waits, later."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT_GRADIENT = "I"
    WEIGHT_GRADIENT = "W"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Action:
    """A pass of one micro-batch through one of a rank's chunks of the model.

    Attributes:
        chunk: Which of the rank's parts.
        joins_next: Whether its collectives run beside the compute of the next action, and the reverse.
    """

    kind: Pass
    micro_batch: int
    chunk: int = 0
    joins_next: bool = False


Actions = tuple[Action, ...]
