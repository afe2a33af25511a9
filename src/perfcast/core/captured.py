"""What a capture gives: the graph of a step, and on what it was run."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.graph import Graph


@dataclass(frozen=True, slots=True)
class StepSizes:
    """On what a step was captured.

    Attributes:
        batch_size: Sequences, images or samples of one forward.
        sequence_length: None where it means nothing.
    """

    batch_size: int = 1
    sequence_length: int | None = None


@dataclass(frozen=True, slots=True)
class CapturedStep:
    """A step as it was captured, before it is lowered to a device."""

    graph: Graph
    sizes: StepSizes
