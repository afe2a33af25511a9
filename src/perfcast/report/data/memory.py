"""What JSON holds of the memory of a step on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.forecast.device import Forecast, ReservedMemory, TensorInterval
from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.largest import Largest
from perfcast.core.program import StepProgram
from perfcast.memory_use.compare import Comparison
from perfcast.report.answers import Answer, downsample_indices, view
from perfcast.report.data.step import MemoryPeak, peak_of

MAX_POINTS = 2000


@dataclass(frozen=True, kw_only=True)
class OutputData:
    """One different operation and the bytes of its outputs.

    Attributes:
        name: The operator as PyTorch names it, or a composite.
        kind: Family of operations.
        phase: forward, backward or optimizer.
        shapes: Shapes and element types, as text.
        count: Nodes that issue it.
        output_bytes: Bytes that its outputs take, in bytes.
    """

    name: str
    kind: str
    phase: str
    shapes: str
    count: int
    output_bytes: int


@dataclass(frozen=True, kw_only=True)
class PhaseStart:
    """Where a stretch of one phase begins.

    Attributes:
        phase: forward, backward or optimizer.
        node: Index of its first node; no unit.
    """

    phase: str
    node: int


@dataclass(frozen=True, kw_only=True)
class AliveData:
    """Equal blocks that are alive at the peak.

    Attributes:
        num_bytes: Size of one, in bytes.
        count: How many there are (count).
        total_bytes: Size of all, in bytes.
        category: Why they exist; no unit.
        operation: Operation that allocates them; empty where they are there before the step; no
            unit.
        module: Dotted path of their module, with the range of numbers in which their paths differ;
            no unit.
        created_at: File, line and function of the program that asked for them; empty where none is
            known; no unit.
    """

    num_bytes: int
    count: int
    total_bytes: int
    category: str
    operation: str
    module: str
    created_at: str


@dataclass(frozen=True, kw_only=True)
class ReservedData:
    """What PyTorch's caching allocator reserves in the first steps, and the driver's context.

    Attributes:
        settings: Settings of the allocator as PYTORCH_CUDA_ALLOC_CONF writes them, empty for the
            defaults; no unit.
        peak_bytes: Most that is reserved, in bytes.
        fragmentation: Share of that which no tensor uses at that time; a fraction.
        context_bytes: The driver's context, in bytes: median of what was measured; 0 where none
            was.
        context_low_bytes: The smallest context measured, in bytes.
        context_high_bytes: The largest context measured, in bytes.
        total_bytes: Reserved memory and context, in bytes.
        num_retries: How often cached memory is given back so that the step fits (count).
        fits: Whether the steps run within the device's memory; no unit.
        step_starts: Index of the first request of each step; no unit.
        requests: Index of the request at each point of the two curves, ascending; no unit.
        allocated_bytes: What tensors hold after that request, in bytes, rounded as the allocator
            rounds.
        reserved_bytes: What is reserved after that request, in bytes.
    """

    settings: str
    peak_bytes: int
    fragmentation: float
    context_bytes: int
    context_low_bytes: int
    context_high_bytes: int
    total_bytes: int
    num_retries: int
    fits: bool
    step_starts: tuple[int, ...]
    requests: tuple[int, ...]
    allocated_bytes: tuple[int, ...]
    reserved_bytes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MemoryData(Answer):
    """Memory of one step on one device, in bytes.

    Attributes:
        fits: Whether the device's memory holds it; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: Name of the model; no unit.
        device: Catalog name of the device; no unit.
        device_title: The device as its vendor writes it; no unit.
        mode: What a step does: train, prefill or decode; no unit.
        dtype: Precision of the step, such as bf16; no unit.
        batch_size: Sequences, images or samples in a step (count).
        sequence_length: Tokens in a sequence (count); null where the model has no sequence.
        parameter_count: Distinct parameters, tied ones once (count).
        program: What runs: its framework, whether the model's own modules are captured and compiled, and
            which option changes that.
        defaults: What was chosen of precision and sequence where nothing was asked for, in words.
        assumptions: What the forecast takes for granted, one sentence each; no unit.
        peak_memory_bytes: Largest memory held during the step, in bytes, where a block is freed as
            the program drops its last reference.
        peak_memory_by_last_use_bytes: The same, in bytes, where a block is freed after the last
            operation that reads it.
        memory_capacity_bytes: Memory of the device, in bytes.
        memory_bytes_by_category: Memory held at the peak, in bytes, by category (parameter,
            gradient, activation and others).
        memory_peak: Where the peak is; no unit.
        memory_interval_count: Blocks of memory in all (count).
        memory_intervals: Every block of memory and when it lives, in the order in which it was
            first seen.
        operations: Different operations and the bytes of their outputs.
        timeline_node_count: Nodes of the step before down-sampling (count).
        timeline_nodes: Index of the node at each point of the timeline, ascending; no unit.
        timeline_bytes: Memory held while that node runs, in bytes; down-sampled so that the peak
            stays.
        timeline_bytes_by_category: The same by category, in bytes.
        timeline_bytes_by_module: The same by group of modules (ranges of layers, the optimizer,
            others), in bytes.
        phase_starts: Where each stretch of one phase begins, in program order; no unit.
        alive_at_peak: What the peak consists of, equal blocks together, the most bytes first; their
            total is peak_memory_bytes.
        largest: The search for the largest size that fits, where one was asked for; the forecast is
            of its answer, or of the smallest size where nothing fits.
        comparison: The closed form beside the captured step; null where it was not asked for.
        reserved: What PyTorch's caching allocator reserves in the first steps, and the driver's
            context; null on devices without that allocator.
    """

    table: ClassVar[str] = "alive_at_peak"

    fits: bool
    verdict: str
    model: str
    device: str
    device_title: str
    mode: str
    dtype: str
    batch_size: int
    sequence_length: int | None
    parameter_count: int
    program: StepProgram
    defaults: tuple[str, ...]
    assumptions: tuple[str, ...]
    peak_memory_bytes: int
    peak_memory_by_last_use_bytes: int
    memory_capacity_bytes: int
    memory_bytes_by_category: dict[str, int]
    memory_peak: MemoryPeak
    memory_interval_count: int
    memory_intervals: tuple[TensorInterval, ...]
    operations: tuple[OutputData, ...]
    timeline_node_count: int
    timeline_nodes: tuple[int, ...]
    timeline_bytes: tuple[int, ...]
    timeline_bytes_by_category: dict[str, tuple[int, ...]]
    timeline_bytes_by_module: dict[str, tuple[int, ...]]
    phase_starts: tuple[PhaseStart, ...]
    alive_at_peak: tuple[AliveData, ...]
    largest: Largest | None
    comparison: Comparison | None
    reserved: ReservedData | None


def data_of(
    forecast: Forecast, largest: Largest | None = None, comparison: Comparison | None = None
) -> MemoryData:
    """Memory without times.

    Args:
        largest: The search whose answer (or smallest size, if nothing fits) the forecast is of.
        comparison: The closed form beside the captured step.
    """
    memory = forecast.memory
    kept = downsample_indices(memory.timeline_bytes, MAX_POINTS, memory.peak_node)
    return view(
        MemoryData,
        forecast,
        verdict=first_said((forecast.fit,)),
        peak_memory_bytes=memory.peak_bytes,
        peak_memory_by_last_use_bytes=memory.peak_by_last_use_bytes,
        memory_capacity_bytes=memory.capacity_bytes,
        memory_bytes_by_category=memory.bytes_by_category,
        memory_peak=peak_of(memory),
        memory_interval_count=len(memory.intervals),
        memory_intervals=memory.intervals,
        operations=tuple(view(OutputData, operation) for operation in forecast.operations),
        timeline_node_count=len(memory.timeline_bytes),
        timeline_nodes=tuple(kept),
        timeline_bytes=_kept(memory.timeline_bytes, kept),
        timeline_bytes_by_category=_kept_each(memory.timeline_bytes_by_category, kept),
        timeline_bytes_by_module=_kept_each(memory.timeline_bytes_by_module, kept),
        phase_starts=tuple(PhaseStart(phase=phase, node=node) for phase, node in memory.phase_starts),
        alive_at_peak=tuple(view(AliveData, group) for group in memory.alive_at_peak),
        largest=largest,
        comparison=comparison,
        reserved=None if memory.reserved is None else _reserved(memory.reserved),
    )


def _kept(values: Sequence[int], indices: Sequence[int]) -> tuple[int, ...]:
    return tuple(values[index] for index in indices)


def _kept_each(timelines: Mapping[str, Sequence[int]], indices: Sequence[int]) -> dict[str, tuple[int, ...]]:
    return {name: _kept(values, indices) for name, values in timelines.items()}


def _reserved(reserved: ReservedMemory) -> ReservedData:
    kept = downsample_indices(reserved.reserved_bytes, MAX_POINTS, 0)
    return view(
        ReservedData,
        reserved,
        requests=tuple(kept),
        allocated_bytes=_kept(reserved.allocated_bytes, kept),
        reserved_bytes=_kept(reserved.reserved_bytes, kept),
    )
