"""A fitted family that measurements on one device have moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.kernel import KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.corrections.evidence import Evidence
from perfcast.cost.learned.corrections.traits import describe_traits
from perfcast.cost.learned.predictor import FittedFamily, KernelEstimates


@dataclass(frozen=True, eq=False)
class MovedFamily:
    """Estimates as the family's, but for one device.

    Attributes:
        device_name: Only kernels of this device move.
    """

    fitted: FittedFamily
    device_name: str
    evidence: Evidence

    def nearest(self, kernels: KernelTable, device: Device) -> list[str]:
        """As of the family: the measurement nearest to each kernel among those that it was trained on."""
        return self.fitted.nearest(kernels, device)

    def estimate(
        self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers
    ) -> KernelEstimates:
        """Seconds of kernel i on ``devices[device_index[i]]``, never below what the device can do."""
        plain = self.fitted.estimate(kernels, devices, device_index)
        named = np.array([device.name == self.device_name for device in devices], dtype=bool)
        rows = np.flatnonzero(named[device_index])
        if not len(rows):
            return plain
        device, some, before = devices[int(np.argmax(named))], kernels.take(rows), _take(plain, rows)
        move, narrowed = self.moves(some, device, before)
        seconds, low, high = (a.copy() for a in (plain.seconds, plain.seconds_low, plain.seconds_high))
        spans = move_spans((before.seconds, before.seconds_low, before.seconds_high), move, narrowed)
        physics = self.fitted.describe(some, [device], np.zeros(len(rows), dtype=np.int64))
        least = np.maximum(physics.compute_seconds * device.clock_headroom, physics.memory_seconds)
        least = np.minimum(least, before.seconds)
        seconds[rows], low[rows], high[rows] = (np.maximum(span, least) for span in spans)
        foreign = plain.is_foreign & ~named[device_index]
        return replace(plain, seconds=seconds, seconds_low=low, seconds_high=high, is_foreign=foreign)

    def moves(self, kernels: KernelTable, device: Device, before: KernelEstimates) -> tuple[Floats, Floats]:
        """How far to move log seconds of kernels on the device, and what remains of their intervals."""
        physics = self.fitted.describe(kernels, [device], np.zeros(len(kernels), dtype=np.int64))
        return self.evidence.about(describe_traits(self.fitted, kernels, device, before, physics))


def move_spans(
    spans: tuple[Floats, Floats, Floats], move: Floats, narrowed: Floats
) -> tuple[Floats, Floats, Floats]:
    """Seconds, low and high, moved by exp(``move``); ``narrowed`` of the logarithm of either side is left."""
    before, low, high = spans
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where((low > 0) & (before > 0), np.log(before / low), 0.0)
        above = np.where((high > 0) & (before > 0), np.log(high / before), 0.0)
    seconds = before * np.exp(move)
    return seconds, seconds * np.exp(-below * narrowed), seconds * np.exp(above * narrowed)


def _take(estimates: KernelEstimates, rows: Integers) -> KernelEstimates:
    return KernelEstimates(*(getattr(estimates, name)[rows] for name in KernelEstimates.__dataclass_fields__))
