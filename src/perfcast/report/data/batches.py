"""What JSON holds of inference over batch sizes and contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.forecast.fit import all_fit, first_said
from perfcast.core.plan import Plan
from perfcast.core.program import StepProgram
from perfcast.prediction.sweep.batches import BatchesForecast, BatchPoint, Phase
from perfcast.report.answers import Answer, view


@dataclass(frozen=True, kw_only=True)
class PhaseData:
    """One token of every sequence.

    Attributes:
        seconds: Best estimate, in seconds.
        seconds_low: Low end of a 90 % interval, in seconds.
        seconds_high: High end of a 90 % interval, in seconds.
        tokens_per_second: Over all devices, of tokens read or written.
        tokens_per_second_per_device: Of one device.
        seconds_by_cause: What one micro-batch's way through all stages goes to, in seconds.
    """

    seconds: float
    seconds_low: float
    seconds_high: float
    tokens_per_second: float
    tokens_per_second_per_device: float
    seconds_by_cause: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class PointData:
    """One batch size and context.

    Attributes:
        batch_size: Sequences that are answered at once.
        context_length: Tokens of each prompt, and of the cache when a token is written.
        time_to_first_token: Until all prompts' first tokens are there; null where it was not asked for.
        time_per_output_token: Each further token; null where it was not asked for.
        memory_bytes: Of the device that needs most, in bytes.
        fits: Whether its memory holds that.
        skipped: Why there is no forecast; null where there is one.
    """

    batch_size: int
    context_length: int
    time_to_first_token: PhaseData | None
    time_per_output_token: PhaseData | None
    memory_bytes: int
    fits: bool
    skipped: str | None


@dataclass(frozen=True, kw_only=True)
class LargestBatch:
    """What the memory of all devices holds.

    Attributes:
        context_length: Tokens.
        batch_size: Most sequences of them; 0 for none.
    """

    context_length: int
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class BatchesData(Answer):
    """Inference over batch sizes and contexts.

    Attributes:
        fits: Whether the device's memory holds it; null where that is not known; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: As asked for.
        cluster: Catalog name.
        device: Catalog name.
        num_devices: Devices of the plan.
        plan: Keys of the plan.
        dtype: Precision.
        program: What runs: its framework, whether the model's own modules are captured and compiled, and
            which option changes that.
        defaults: What was chosen of precision and sequence where nothing was asked for, in words.
        cost_model: What priced the kernels.
        capacity_bytes: Memory of a device, in bytes.
        points: Batches of every context.
        largest_batches: What the memory holds of each context.
        assumptions: What was taken for granted.
    """

    table: ClassVar[str] = "points"

    fits: bool | None
    verdict: str
    model: str
    cluster: str
    device: str
    num_devices: int
    plan: Plan
    dtype: str
    program: StepProgram
    defaults: tuple[str, ...]
    cost_model: str
    capacity_bytes: int
    points: tuple[PointData, ...]
    largest_batches: tuple[LargestBatch, ...]
    assumptions: tuple[str, ...]


def data_of(found: BatchesForecast) -> BatchesData:
    """Every figure in SI units."""
    return view(
        BatchesData,
        found,
        fits=all_fit(found.fits),
        verdict=first_said(found.fits),
        points=tuple(_point(point, found.num_devices) for point in found.points),
        largest_batches=tuple(
            LargestBatch(context_length=context, batch_size=batch) for context, batch in found.largest_batches
        ),
    )


def _point(point: BatchPoint, num_devices: int) -> PointData:
    return view(
        PointData,
        point,
        time_to_first_token=point.prefill and _phase(point.prefill, num_devices),
        time_per_output_token=point.decode and _phase(point.decode, num_devices),
        skipped=point.skipped or None,
    )


def _phase(phase: Phase, num_devices: int) -> PhaseData:
    return view(
        PhaseData,
        phase,
        tokens_per_second_per_device=phase.tokens_per_second / num_devices,
        seconds_by_cause=phase.forecast.time.seconds_by_cause,
    )
