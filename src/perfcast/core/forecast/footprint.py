"""What a rank of a plan holds, term by term."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfcast.core.forecast.fit import Fit
from perfcast.core.forecast.recommendation import PlanRecommendation
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision
from perfcast.core.program import StepProgram
from perfcast.core.training import Training


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
class PeakCandidate:
    """An instant of a step that can be the peak, and what is held then."""

    name: str
    terms: tuple[Term, ...] = field(repr=False)

    @property
    def num_bytes(self) -> int:
        """Sum of the terms."""
        return sum(term.num_bytes for term in self.terms)


@dataclass(frozen=True, slots=True)
class StageFootprint:
    """What one rank of a pipeline stage holds, at each instant that can be its peak."""

    stage: int
    peak_candidates: tuple[PeakCandidate, ...]

    @property
    def peak(self) -> PeakCandidate:
        """The candidate that holds most."""
        return max(self.peak_candidates, key=lambda candidate: candidate.num_bytes)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of one step under a plan, in bytes that the program allocates.

    Attributes:
        peak_bytes_low, peak_bytes_high: 90 % interval of the allocated peak.
        reserved_bytes: What the caching allocator then holds of the device, without the context.
        context_bytes: Of the driver's context and the communication library, outside the allocator.
        layer_terms: What one layer keeps for its backward, tensor by tensor (of the kind with experts, where
            there is one); empty for inference.
        assumptions: Sentences without a full stop.
    """

    stages: tuple[StageFootprint, ...] = field(repr=False)
    peak_bytes_low: int
    peak_bytes_high: int
    reserved_bytes: int
    reserved_bytes_low: int
    reserved_bytes_high: int
    context_bytes: int
    layer_terms: tuple[Term, ...] = field(default=(), repr=False)
    assumptions: tuple[str, ...] = field(default=(), repr=False)

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
        """Bytes of the device's memory: reserved, and the context."""
        return self.reserved_bytes + self.context_bytes


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """Memory of a model under a plan on one kind of device.

    Attributes:
        training: None for inference.
        program: What runs.
        step_seconds: That recommendations are compared with; None where none was asked for, or is known.
        timed_on: How recommendations were timed, or why they were not, in a sentence; '' where none was
            asked for.
        recommendations: Cheapest first; those of one change come first among those that fit.
        way_out: A clause on what would make it fit; '' where it fits, or nothing is known.
        precision: Of inference; None for training.
        defaults: What was chosen of precision and sequence, in words.
    """

    model: str
    device: str
    device_title: str
    mode: Mode
    plan: Plan
    training: Training | None = field(repr=False)
    dtype: str
    sequence_length: int
    parameter_count: int
    capacity_bytes: int
    footprint: Footprint
    program: StepProgram = field(repr=False)
    step_seconds: float | None = None
    timed_on: str = ""
    recommendations: tuple[PlanRecommendation, ...] = field(default=(), repr=False)
    way_out: str = ""
    precision: Precision | None = None
    defaults: tuple[str, ...] = ()

    @property
    def peak_bytes(self) -> int:
        """Allocated at the peak of the stage that needs most."""
        return self.footprint.peak_bytes

    @property
    def needed_bytes(self) -> int:
        """What the device must have, as a captured step's memory says it."""
        return self.footprint.device_bytes

    @property
    def fits(self) -> bool:
        """Whether what the worst stage needs of a device is there."""
        return self.footprint.device_bytes <= self.capacity_bytes

    @property
    def fit(self) -> Fit:
        """The same with what is needed and its interval."""
        held = self.footprint
        return Fit(
            fits=self.fits,
            needed_bytes=held.device_bytes,
            needed_bytes_low=held.reserved_bytes_low + held.context_bytes,
            needed_bytes_high=held.reserved_bytes_high + held.context_bytes,
            capacity_bytes=self.capacity_bytes,
            way_out=self.way_out,
        )
