"""Seconds of PyTorch's operators on all cores of a processor that nobody calibrated.

    seconds = call + a · flops / peak + b · weights / memory + c · activations / caches
    peak    = fp32 peak · clock / stated clock       clock  = √(guaranteed · highest)
    caches  = cores · clock · 16 bytes a cycle

one line for each class of operators. A call forks and joins threads, so its time goes with 1 / clock; weights
of a network seldom fit the caches and come from memory; activations of small batches stay in the caches, and
a convolution reorders them into its library's own layout. Constants are fitted to measured steps of image
models (``constants.toml`` says which and how closely); another processor is reached by its datasheet alone,
with an interval as wide as nobody having measured it deserves.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.model import Estimates, is_free, least_seconds
from perfcast.cost.processor.work import CLASSES, ProcessorClass, ProcessorWork, work_of
from perfcast.units import GIGA, MICRO

_CACHE_BYTES_PER_CYCLE = 16.0


@dataclass(frozen=True)
class ProcessorConstants:
    """Fitted constants by class.

    Attributes:
        calls: Microseconds of one call at 1 GHz.
        flops, weights, activations: Factors on the three times; 1 is the datasheet's.
        measured: Processors they were fitted on.
        spread: How far one operator may be off on one of them, as a factor either way, 90 % of the time.
        unmeasured_spread: The same on another processor.
    """

    calls: Mapping[ProcessorClass, float]
    flops: Mapping[ProcessorClass, float]
    weights: Mapping[ProcessorClass, float]
    activations: Mapping[ProcessorClass, float]
    measured: tuple[str, ...]
    spread: float
    unmeasured_spread: float


@cache
def load_processor_constants() -> ProcessorConstants:
    """The constants that are shipped."""
    path = resources.files("perfcast.cost.processor") / "constants.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))

    def by_class(table: str) -> dict[ProcessorClass, float]:
        return {name: float(content[table][name]) for name in CLASSES}

    return ProcessorConstants(
        calls=by_class("call"),
        flops=by_class("flops"),
        weights=by_class("weights"),
        activations=by_class("activations"),
        measured=tuple(content["measured"]),
        spread=float(content["spread"]),
        unmeasured_spread=float(content["unmeasured_spread"]),
    )


def price_on_processor(operations: Sequence[Operation], device: Device) -> Estimates:
    """Price each operation on a processor of the catalog.

    Raises:
        PlanError: The processor lacks arithmetic in a precision that is asked for.
    """
    constants, work = load_processor_constants(), work_of(operations)
    terms = _terms(work, device, constants)
    least = least_seconds(operations, device)
    runs = ~is_free(operations)
    seconds = np.where(runs, np.maximum(np.sum(terms, axis=0), least), 0.0)
    is_measured = device.name in constants.measured
    spread = constants.spread if is_measured else constants.unmeasured_spread
    names = np.array(["launch", "compute", "memory", "memory"], dtype=object)
    longest = np.argmax(np.stack(terms), axis=0) if len(operations) else np.zeros(0, dtype=int)
    limits = tuple(np.where(runs, names[longest], "nothing").tolist())
    source = "interpolated" if is_measured else "extrapolated"
    return Estimates(
        seconds=seconds,
        seconds_low=np.where(runs, np.maximum(seconds / spread, least), 0.0),
        seconds_high=seconds * spread,
        bound_by=limits,
        provenance=(source,) * len(operations),
    )


def _terms(work: ProcessorWork, device: Device, constants: ProcessorConstants) -> tuple[Floats, ...]:
    """Seconds of the call, of arithmetic, weights and activations, each of shape [n]."""
    call, flop, weight_byte, activation_byte = unit_seconds(device)

    def by_class(values: Mapping[ProcessorClass, float]) -> Floats:
        return np.array([values[name] for name in CLASSES])

    return (
        work.calls @ by_class(constants.calls) * call,
        work.flops @ by_class(constants.flops) * flop,
        work.weight_bytes @ by_class(constants.weights) * weight_byte,
        work.activation_bytes @ by_class(constants.activations) * activation_byte,
    )


def unit_seconds(device: Device) -> tuple[float, float, float, float]:
    """Seconds of a call, a flop, a byte of weights and one of activations where all constants are 1."""
    clock = math.sqrt(device.clock_hertz * (device.max_clock_hertz or device.clock_hertz))
    peak = device.peak_flops_per_second(DType.FP32, matrix_units=False) * clock / device.clock_hertz
    caches = device.num_sms * clock * _CACHE_BYTES_PER_CYCLE
    return MICRO * GIGA / clock, 1 / peak, 1 / device.memory_bytes_per_second, 1 / caches
