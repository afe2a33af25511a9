"""What JSON holds of a step on one device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.forecast.device import Forecast, HostShare, MemoryForecast, OperationTime, TensorInterval
from perfcast.core.forecast.fit import first_said
from perfcast.core.program import StepProgram
from perfcast.report.answers import Answer, view

MAX_INTERVALS = 100


@dataclass(frozen=True, kw_only=True)
class KindData:
    """One kind of operation.

    Attributes:
        kind: Family of operations.
        seconds: Time of all its nodes, in seconds.
        count: Nodes of the step.
        flops: Floating-point operations of all its nodes (multiply-add = 2).
        memory_traffic_bytes: Bytes that cross the memory interface at least once, over all its nodes.
    """

    kind: str
    seconds: float
    count: int
    flops: int
    memory_traffic_bytes: int


@dataclass(frozen=True, kw_only=True)
class ModuleData:
    """One module.

    Attributes:
        module: Dotted path of the module, empty for the root.
        seconds: Time of all its nodes, in seconds.
        count: Nodes of the step.
        flops: Floating-point operations of all its nodes (multiply-add = 2).
        memory_traffic_bytes: Bytes that cross the memory interface at least once, over all its nodes.
    """

    module: str
    seconds: float
    count: int
    flops: int
    memory_traffic_bytes: int


@dataclass(frozen=True, kw_only=True)
class MemoryPeak:
    """Where the peak of memory is.

    Attributes:
        operation: Operation that runs at the peak; no unit.
        module: Dotted path of its module, empty for the root; no unit.
        phase: Phase of the step; no unit.
        node: Index of the node in program order; no unit.
    """

    operation: str
    module: str
    phase: str
    node: int


@dataclass(frozen=True, kw_only=True)
class StepData(Answer):
    """Time and memory of one step on one device.

    Seconds, bytes and flops throughout; fractions run from 0 to 1.

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
        cost_model: Predictor that priced the operations; no unit.
        step_seconds: Time of one step, in seconds.
        step_seconds_low: Low end of its interval, in seconds.
        step_seconds_high: High end of its interval, in seconds.
        exposed_host_seconds: Part of the step in which the device waits for the host.
        host: The processor that issues the kernels, what it needs for the step and what the device waits for
            it, in seconds; null where none issues kernels or it is never late.
        seconds_by_provenance: Seconds of the step by what its prices rest on: measured,
            interpolated, extrapolated or bounded.
        forward_seconds: Time of the forward, in seconds.
        backward_seconds: Time of the backward, in seconds; 0 where there is none.
        optimizer_seconds: Time of the optimizer, in seconds; 0 where there is none.
        samples_per_second: Sequences, images or samples per second.
        tokens_per_second: Tokens per second (a decode step adds one to each sequence); absent where
            the model has no sequence.
        flops: Model floating-point operations of a step (count, multiply-add = 2), recomputation
            left out.
        recompute_flops: Floating-point operations of a step that repeat earlier work (count).
        mfu: Model flops over what the device's peak could do in the step; a fraction, 1 is the
            peak.
        hfu: The same with recompute_flops counted; a fraction.
        peak_flops_per_second: Peak rate of the device at this precision, in flops per second.
        memory_bytes_per_second: Peak memory bandwidth of the device, in bytes per second.
        breakdown: Time by kind of operation, in seconds.
        by_module: Time by module, in seconds.
        operations: Different operations, each over all its nodes; times in seconds, sizes in bytes.
        peak_memory_bytes: Largest memory held during the step, in bytes, where a block is freed as
            the program drops its last reference.
        peak_memory_by_last_use_bytes: The same, in bytes, where a block is freed after the last
            operation that reads it.
        needed_memory_bytes: What the device must have, in bytes: reserved memory and the driver's context
            where they are known, else peak_memory_bytes.
        memory_capacity_bytes: Memory of the device, in bytes.
        memory_bytes_by_category: Memory held at the peak, in bytes, by category (parameter,
            gradient, activation and others).
        memory_peak: Where the peak is; no unit.
        memory_interval_count: Blocks of memory in all (count); memory_intervals lists only the
            largest.
        memory_intervals: The 100 largest blocks of memory, largest first.
    """

    table: ClassVar[str] = "operations"

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
    cost_model: str
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    exposed_host_seconds: float
    host: HostShare | None
    seconds_by_provenance: dict[str, float]
    forward_seconds: float
    backward_seconds: float
    optimizer_seconds: float
    samples_per_second: float
    tokens_per_second: float | None
    flops: int
    recompute_flops: int
    mfu: float
    hfu: float
    peak_flops_per_second: float
    memory_bytes_per_second: float
    breakdown: tuple[KindData, ...]
    by_module: tuple[ModuleData, ...]
    operations: tuple[OperationTime, ...]
    peak_memory_bytes: int
    peak_memory_by_last_use_bytes: int
    needed_memory_bytes: int
    memory_capacity_bytes: int
    memory_bytes_by_category: dict[str, int]
    memory_peak: MemoryPeak
    memory_interval_count: int
    memory_intervals: tuple[TensorInterval, ...]


def data_of(forecast: Forecast) -> StepData:
    """Everything but the timelines."""
    phases, memory = forecast.seconds_by_phase, forecast.memory
    return view(
        StepData,
        forecast,
        verdict=first_said((forecast.fit,)),
        forward_seconds=phases.get("forward", 0.0),
        backward_seconds=phases.get("backward", 0.0),
        optimizer_seconds=phases.get("optimizer", 0.0),
        breakdown=tuple(view(KindData, group, kind=group.label) for group in forecast.by_kind),
        by_module=tuple(view(ModuleData, group, module=group.label) for group in forecast.by_module),
        peak_memory_bytes=memory.peak_bytes,
        peak_memory_by_last_use_bytes=memory.peak_by_last_use_bytes,
        needed_memory_bytes=memory.needed_bytes,
        memory_capacity_bytes=memory.capacity_bytes,
        memory_bytes_by_category=memory.bytes_by_category,
        memory_peak=peak_of(memory),
        memory_interval_count=len(memory.intervals),
        memory_intervals=largest_intervals(memory),
    )


def peak_of(memory: MemoryForecast) -> MemoryPeak:
    """Where the peak is."""
    return MemoryPeak(
        operation=memory.peak_operation,
        module=memory.peak_module,
        phase=memory.peak_phase,
        node=memory.peak_node,
    )


def largest_intervals(memory: MemoryForecast, limit: int = MAX_INTERVALS) -> tuple[TensorInterval, ...]:
    """The largest blocks, largest first; equal ones in the order in which they are created."""
    return tuple(sorted(memory.intervals, key=lambda i: (-i.num_bytes, i.created_by))[:limit])
