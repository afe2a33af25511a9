"""A fitted family that measurements on one device have moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.hardware import Device
from perfcast.core.kernel import KernelTable
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
        device, some = devices[int(np.argmax(named))], kernels.take(rows)
        index = np.zeros(len(rows), dtype=np.int64)
        physics = self.fitted.describe(some, [device], index)
        before = _take(plain, rows)
        traits = describe_traits(self.fitted, some, device, before, physics)
        move, narrowed = self.evidence.about(traits)
        least = np.maximum(physics.compute_seconds * device.clock_headroom, physics.memory_seconds)
        least = np.minimum(least, before.seconds)
        seconds = np.maximum(before.seconds * np.exp(move), least)
        below = np.log(before.seconds / before.seconds_low) * narrowed
        above = np.log(before.seconds_high / before.seconds) * narrowed
        moved, low, high = (a.copy() for a in (plain.seconds, plain.seconds_low, plain.seconds_high))
        moved[rows] = seconds
        low[rows] = np.maximum(seconds * np.exp(-below), np.minimum(least, seconds))
        high[rows] = seconds * np.exp(above)
        foreign = plain.is_foreign & ~named[device_index]
        return replace(plain, seconds=moved, seconds_low=low, seconds_high=high, is_foreign=foreign)


def _take(estimates: KernelEstimates, rows: Integers) -> KernelEstimates:
    return KernelEstimates(*(getattr(estimates, name)[rows] for name in KernelEstimates.__dataclass_fields__))
