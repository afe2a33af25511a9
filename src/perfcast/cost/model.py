"""What every cost model answers, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind

#: Announced figures move until a device ships, and times with them by this factor either way, 90 % of the
#: time: of ten figures of NVIDIA and AMD nine moved by less (H100 memory 3.0 → 3.35 TB/s and fp16 1000 → 989
#: TFLOP/s, A100 none, MI300X memory 5.2 → 5.3 TB/s, MI355X fp8 4.6 → 5.0 PFLOP/s, B200 memory 8 → 7.7 TB/s,
#: B300 memory 8 → 7.7 TB/s and fp4 15 → 13.5 PFLOP/s), Rubin's memory by more (13 → 22 TB/s).
ANNOUNCED_SPREAD = 1.25
#: An operation without a rule has a known traffic and nothing else; its time may be this many times more.
UNKNOWN_SPREAD = 10.0


@dataclass(frozen=True)
class Estimates:
    """Seconds of each of a batch of operations, shape [n].

    Attributes:
        seconds: Best estimate of one run.
        seconds_low, seconds_high: Interval; of a device that ships, low is never below ``least_seconds``.
        bound_by: 'compute', 'memory', 'launch', or 'nothing' for an operation that runs no kernel.
        provenance: 'measured', 'interpolated' (within measured sizes, on a measured device), 'extrapolated',
            or 'bounded' where only a bound is known.
        errs_as_one: Whether what is wrong about one price is wrong about all: nothing of the device's
            vendor was ever measured.
    """

    seconds: Floats
    seconds_low: Floats
    seconds_high: Floats
    bound_by: tuple[str, ...]
    provenance: tuple[str, ...]
    errs_as_one: bool = False


def widen_announced(estimates: Estimates, device: Device) -> Estimates:
    """Wider intervals where the device's figures are only announced, see ``ANNOUNCED_SPREAD``."""
    if device.status != "announced":
        return estimates
    return replace(
        estimates,
        seconds_low=estimates.seconds_low / ANNOUNCED_SPREAD,
        seconds_high=estimates.seconds_high * ANNOUNCED_SPREAD,
    )


class CostModel(Protocol):
    """Prices operations on a device. Deterministic; monotone in work; never faster than the roofline."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        """Price each operation once.

        Raises:
            PlanError: The device lacks arithmetic in a precision that is asked for.
        """
        ...


@runtime_checkable
class KnowsHost(Protocol):
    """A cost model that says how long the host takes to issue a kernel."""

    @property
    def host_seconds(self) -> float:
        """Time of the host for one kernel; 0 where kernels are replayed without the host."""
        ...


@runtime_checkable
class KnowsMeasurements(Protocol):
    """A cost model that measurements on the device itself may have moved."""

    @property
    def measurements(self) -> str:
        """Which, in words; '' for none."""
        ...


@runtime_checkable
class KnowsNearest(Protocol):
    """A cost model that can say which measurement lies nearest to an operation."""

    def nearest(self, operations: Sequence[Operation], device: Device) -> list[str]:
        """In words, one for each operation; '' where there is none."""
        ...


@runtime_checkable
class KnowsDevices(Protocol):
    """A cost model that can say how near to a device the devices are that it learned from."""

    def about_device(self, device: Device) -> str:
        """A sentence without a full stop; '' for a device that was measured."""
        ...


def compute_seconds(operations: Sequence[Operation], device: Device) -> Floats:
    """executed flops / peak, by precision and unit."""
    peaks = {
        key: device.peak_flops_per_second(*key)
        for key in {(o.compute_dtype, o.uses_matrix_units) for o in operations if o.executed_flops}
    }
    return np.array(
        [
            o.executed_flops / peaks[o.compute_dtype, o.uses_matrix_units] if o.executed_flops else 0.0
            for o in operations
        ]
    )


def memory_seconds(operations: Sequence[Operation], device: Device) -> Floats:
    """traffic / bandwidth."""
    traffic = np.array([o.memory_traffic_bytes for o in operations], dtype=np.float64)
    return traffic / device.memory_bytes_per_second


def roofline_seconds(operations: Sequence[Operation], device: Device) -> Floats:
    """max(compute, memory): no kernel is faster (Williams, Waterman, Patterson, CACM 2009)."""
    return np.maximum(compute_seconds(operations, device), memory_seconds(operations, device))


def least_seconds(operations: Sequence[Operation], device: Device) -> Floats:
    """The roofline at the highest clock of a board that may rise beyond the one its peaks are stated at."""
    compute = compute_seconds(operations, device) * device.clock_headroom
    return np.maximum(compute, memory_seconds(operations, device))


def is_free(operations: Sequence[Operation]) -> Flags:
    """Which operations run no kernel."""
    return np.array([o.is_free for o in operations], dtype=bool)


def is_unknown(operations: Sequence[Operation]) -> Flags:
    """Which operations have no rule."""
    return np.array([o.kind is OperationKind.UNKNOWN for o in operations], dtype=bool)
