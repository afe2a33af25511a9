"""What a rank of a plan holds, term by term."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a footprint.

    Attributes:
        name: For example 'weights', 'gradients', 'layer activations', 'logits'.
        category: One of ``core.tensor.Category``.
        formula: In symbols and numbers, for a reader who wants to check it.
        source: Where the formula comes from.
    """

    name: str
    category: str
    num_bytes: int
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant of a step that can be the peak, and what is held then."""

    name: str
    terms: tuple[Term, ...]

    @property
    def num_bytes(self) -> int:
        """Sum of the terms."""
        return sum(term.num_bytes for term in self.terms)


@dataclass(frozen=True, slots=True)
class StageFootprint:
    """The moments of one rank of a pipeline stage."""

    stage: int
    moments: tuple[Moment, ...]

    @property
    def peak(self) -> Moment:
        """The moment that holds most."""
        return max(self.moments, key=lambda moment: moment.num_bytes)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of one step under a plan, in bytes that the program allocates.

    Attributes:
        peak_bytes_low, peak_bytes_high: 90 % interval of the allocated peak.
        reserved_bytes: What the caching allocator then holds of the device, without the context.
        context_bytes: Of the driver's context and the communication library, outside the allocator.
        assumptions: Sentences without a full stop.
    """

    stages: tuple[StageFootprint, ...]
    peak_bytes_low: int
    peak_bytes_high: int
    reserved_bytes: int
    reserved_bytes_low: int
    reserved_bytes_high: int
    context_bytes: int
    assumptions: tuple[str, ...] = ()

    @property
    def peak_stage(self) -> StageFootprint:
        """The stage that needs most."""
        return max(self.stages, key=lambda stage: stage.peak.num_bytes)

    @property
    def peak_bytes(self) -> int:
        """Allocated at the peak of the stage that needs most."""
        return self.peak_stage.peak.num_bytes

    @property
    def device_bytes(self) -> int:
        """Of the device's memory: reserved, and the context."""
        return self.reserved_bytes + self.context_bytes
