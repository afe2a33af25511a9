"""What JSON holds of the memory of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.footprint import PlanMemory, StageFootprint, Term
from perfcast.core.forecast.recommendation import PlanRecommendation
from perfcast.core.plan import Plan
from perfcast.core.program import StepProgram
from perfcast.core.training import Training
from perfcast.report.answers import Answer, view


@dataclass(frozen=True, kw_only=True)
class MomentData:
    """An instant that can be the peak, and what is held then.

    Attributes:
        name: An instant that can be the peak.
        memory_bytes: Bytes held.
    """

    name: str
    memory_bytes: int
    terms: tuple[Term, ...]


@dataclass(frozen=True, kw_only=True)
class StageData:
    """One stage of the pipeline.

    Attributes:
        stage: Pipeline stage.
        peak_moment: Name of the moment that holds most.
        peak_memory_bytes: Bytes held then.
    """

    stage: int
    peak_moment: str
    peak_memory_bytes: int
    moments: tuple[MomentData, ...]


@dataclass(frozen=True, kw_only=True)
class PlanMemoryData(Answer):
    """Memory of each pipeline stage's rank, in closed form.

    Sizes in bytes, times in seconds.

    Attributes:
        fits: Whether the device's memory holds it; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: As asked for.
        device: Catalog name.
        device_title: Name in words.
        mode: train, prefill or decode.
        dtype: Precision.
        sequence_length: Tokens.
        parameter_count: Of the whole model.
        world_size: Devices.
        global_batch_size: Sequences of a step.
        plan: How the work is spread.
        training: Null for inference.
        program: What runs: its framework, whether the model's own modules are captured and compiled, and
            which option changes that.
        defaults: What was chosen of precision and sequence where nothing was asked for, in words.
        peak_memory_bytes: Allocated at the peak of the worst stage.
        peak_memory_bytes_low: Low end of the 90 % interval.
        peak_memory_bytes_high: High end.
        reserved_memory_bytes: Of the caching allocator.
        reserved_memory_bytes_low: Low end.
        reserved_memory_bytes_high: High end.
        context_bytes: Of the driver and communicators.
        device_bytes: Reserved and context.
        memory_capacity_bytes: Of the device.
        peak_stage: The worst stage.
        step_seconds: That recommendations are compared with; null where none was asked for, or is known.
        timed_on: How recommendations were timed, or why they were not; empty where none was asked for.
        layer_terms: What one layer keeps for its backward; empty for inference.
        stages: Every stage's rank.
        recommendations: What would make it fit, or lower it; the cheapest first.
        assumptions: What was taken for granted.
    """

    table: ClassVar[str] = "stages[stage].moments[name].terms"

    fits: bool
    verdict: str
    model: str
    device: str
    device_title: str
    mode: str
    dtype: str
    sequence_length: int
    parameter_count: int
    world_size: int
    global_batch_size: int
    plan: Plan
    training: Training | None
    program: StepProgram
    defaults: tuple[str, ...]
    peak_memory_bytes: int
    peak_memory_bytes_low: int
    peak_memory_bytes_high: int
    reserved_memory_bytes: int
    reserved_memory_bytes_low: int
    reserved_memory_bytes_high: int
    context_bytes: int
    device_bytes: int
    memory_capacity_bytes: int
    peak_stage: int
    stages: tuple[StageData, ...]
    step_seconds: float | None
    timed_on: str
    recommendations: tuple[PlanRecommendation, ...]
    assumptions: tuple[str, ...]
    layer_terms: tuple[Term, ...]


def data_of(result: PlanMemory) -> PlanMemoryData:
    """All moments of all stages, and the recommendations."""
    footprint = result.footprint
    return view(
        PlanMemoryData,
        result,
        verdict=first_said((result.fit,)),
        world_size=result.plan.world_size,
        global_batch_size=result.plan.global_batch_size,
        peak_memory_bytes=footprint.peak_bytes,
        peak_memory_bytes_low=footprint.peak_bytes_low,
        peak_memory_bytes_high=footprint.peak_bytes_high,
        reserved_memory_bytes=footprint.reserved_bytes,
        reserved_memory_bytes_low=footprint.reserved_bytes_low,
        reserved_memory_bytes_high=footprint.reserved_bytes_high,
        context_bytes=footprint.context_bytes,
        device_bytes=footprint.device_bytes,
        memory_capacity_bytes=result.capacity_bytes,
        peak_stage=footprint.peak_stage.stage,
        stages=tuple(_stage(stage) for stage in footprint.stages),
        layer_terms=footprint.layer_terms,
        assumptions=footprint.assumptions,
    )


def _stage(stage: StageFootprint) -> StageData:
    moments = tuple(
        MomentData(name=moment.name, memory_bytes=moment.num_bytes, terms=moment.terms)
        for moment in stage.peak_candidates
    )
    return StageData(
        stage=stage.stage,
        peak_moment=stage.peak.name,
        peak_memory_bytes=stage.peak.num_bytes,
        moments=moments,
    )
