"""A fitted family: physics × device scalars × residual, with an interval and a provenance.

    log seconds = log physics + u · s(device, segment) + residual(features)

The residual of a trained architecture comes from many trees that know which one it is; of another from
few trees, shrunk by a factor that leaving devices out chose. The interval is a quantile range of
log(measured / predicted): of rows held out, for trained devices; of whole devices left out, for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.hardware import Device
from perfcast.core.kernel import SIZES, KernelFamily, KernelTable
from perfcast.cost.learned.family import Family, Physics
from perfcast.cost.learned.figures import collect_figures
from perfcast.cost.learned.scalars import (
    NUM_SCALARS,
    Architecture,
    DeviceScalars,
    Segment,
    architecture_of,
    coarser,
    index_segments,
    regime_shares,
    scalar_offsets,
    vendor_key,
)
from perfcast.cost.learned.trees import Trees

INTERPOLATED, EXTRAPOLATED = "interpolated", "extrapolated"
#: How much wider an interval is for a kernel beyond all measured sizes: for each doubling, this much.
_WIDER_PER_DOUBLING = 0.06
#: Standard deviation of log(measured / predicted) that a vendor adds, none of whose devices was measured:
#: scalars of AMD's devices are so much farther from the mean of NVIDIA's than from those of their vendor's
#: other architectures (root of the difference of mean squares, 0.1 to 0.3 by family and regime in the shipped
#: weights; tests/cost/learned/test_predictor computes it).
UNSEEN_VENDOR = 0.25
#: Half of a 90 % interval in standard deviations.
_NINETY = 1.645


@dataclass(frozen=True)
class Spread:
    """5 % and 95 % quantiles of log(measured / predicted) by segment (or a coarser level) and regime."""

    known: Mapping[tuple[Segment, int], tuple[float, float]]
    unseen: Mapping[tuple[Segment, int], tuple[float, float]]


@dataclass(frozen=True)
class Hull:
    """Range of log₂ sizes that a segment was measured in; the axes are the family's ``SIZES``.

    Attributes:
        low, high: Shape [axes].
        devices: Names of the devices measured.
        shapes: A sample of measured sizes, shape [s, axes], and on which of ``devices``, shape [s].
    """

    low: Floats
    high: Floats
    devices: tuple[str, ...]
    shapes: Floats
    shape_device: Integers


@dataclass(frozen=True)
class CellError:
    """How well one operation in one format was predicted on one device.

    Attributes:
        known_error: Mean |predicted / measured - 1| over rows held out of the training; None for too few.
        unseen_error: The same with the device's whole architecture left out.
    """

    operation: str
    dtype: str
    device: str
    count: int
    known_error: float | None
    unseen_error: float | None


@dataclass(frozen=True)
class KernelEstimates:
    """What n kernels take, shape [n] each; shares are of the physics' time, see ``scalars.regime_shares``."""

    seconds: Floats
    seconds_low: Floats
    seconds_high: Floats
    overhead_share: Floats
    compute_share: Floats
    provenance: Objects


@dataclass(frozen=True)
class FittedFamily:
    """What training leaves behind for one family.

    Attributes:
        architectures: Those that ``known`` was trained on; a kernel's code is the place in this list.
        trained: (code, operation, format) that ``known`` has seen: it speaks of nothing else. Operations
            of products are one kernel library's; there the format alone counts.
    """

    family: Family
    scalars: DeviceScalars
    common: Trees
    shrink: Mapping[str, float]
    known: Trees | None
    architectures: tuple[Architecture, ...]
    trained: frozenset[tuple[int, str, str]]
    spread: Spread
    hulls: Mapping[Segment, Hull]
    errors: tuple[CellError, ...] = ()

    def describe(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Physics:
        """Physics of kernels on their devices.

        Only repeated kernels were measured. The residual of a cold one is that of its repeated twin; what
        the cold cache costs is the physics' to say.
        """
        figures = collect_figures(devices, device_index, kernels.word("dtype"))
        physics = self.family.describe(kernels, figures)
        if not kernels.is_cold:
            return physics
        repeated = self.family.describe(replace(kernels, is_cold=False), figures)
        return replace(physics, features=repeated.features)

    def estimate(
        self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers
    ) -> KernelEstimates:
        """Seconds of kernel i on ``devices[device_index[i]]``."""
        physics = self.describe(kernels, devices, device_index)
        segments, segment_index = index_segments(kernels)
        shares = regime_shares(physics)
        offset, own = scalar_offsets(self.scalars, shares, device_index, devices, segments, segment_index)
        codes = self._codes(kernels, devices, device_index)
        shrink = self._shrink(devices, segments)[device_index, segment_index]
        residual = self._residual(physics, codes, shrink)
        seconds = physics.seconds * np.exp(np.clip(offset + residual, -3.0, 3.0))
        floor = np.maximum(physics.compute_seconds, physics.memory_seconds)
        seconds = np.maximum(seconds, floor)
        headroom = np.array([device.clock_headroom for device in devices], dtype=np.float64)[device_index]
        least = np.maximum(physics.compute_seconds * headroom, physics.memory_seconds)
        beyond = self._beyond(kernels, segments, segment_index)
        known = own & (codes >= 0)
        low, high = self._interval(segments, segment_index, shares.argmax(axis=1), known, beyond)
        low, high = self._widen_vendors(low, high, devices, device_index)
        return KernelEstimates(
            seconds=seconds,
            seconds_low=np.maximum(seconds * np.exp(low), np.minimum(least, seconds)),
            seconds_high=seconds * np.exp(high),
            overhead_share=shares[:, 0],
            compute_share=shares[:, 1],
            provenance=np.where(known & (beyond <= 0), INTERPOLATED, EXTRAPOLATED).astype(object),
        )

    def _codes(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Integers:
        """Code of each kernel's architecture where ``known`` has seen such a kernel, else -1."""
        segments, segment_index = index_segments(kernels)
        of_device = [architecture_code(device, self.architectures) for device in devices]
        table = np.full((len(devices), max(len(segments), 1)), -1, dtype=np.int64)
        for row, code in enumerate(of_device):
            for column, (operation, dtype, _) in enumerate(segments):
                name = "" if self.family.family is KernelFamily.PRODUCT else operation
                if (code, name, dtype) in self.trained:
                    table[row, column] = code
        return table[device_index, segment_index] if len(kernels) else np.zeros(0, dtype=np.int64)

    def _residual(self, physics: Physics, codes: Integers, shrink: Floats) -> Floats:
        residual = np.zeros(len(physics.seconds))
        known = (codes >= 0) & (self.known is not None)
        if self.known is not None and known.any():
            residual[known] = self.known.predict(with_codes(physics.features[known], codes[known]))
        if not known.all():
            residual[~known] = shrink[~known] * self.common.predict(physics.features[~known])
        return residual

    def _shrink(self, devices: Sequence[Device], segments: Sequence[Segment]) -> Floats:
        """Trust in each device and segment, shape [devices, segments]; where none was chosen, the mean."""
        default = float(np.mean(list(self.shrink.values()))) if self.shrink else 0.0
        table = [[self.shrink.get(vendor_key(d.vendor, s), default) for s in segments] for d in devices]
        return np.array(table, dtype=np.float64).reshape(len(devices), len(segments))

    def _beyond(self, kernels: KernelTable, segments: Sequence[Segment], segment_index: Integers) -> Floats:
        """Doublings by which the sizes leave what was measured; infinite for a segment never measured."""
        sizes, beyond = log_sizes(kernels), np.full(len(kernels), np.inf)
        for number, segment in enumerate(segments):
            hull = self.hulls.get(segment)
            if hull is None:
                continue
            rows = segment_index == number
            excess = np.maximum(hull.low - sizes[rows], sizes[rows] - hull.high)
            beyond[rows] = np.maximum(excess.max(axis=1), 0.0)
        return beyond

    def _interval(
        self,
        segments: Sequence[Segment],
        segment_index: Integers,
        regime: Integers,
        known: Flags,
        beyond: Floats,
    ) -> tuple[Floats, Floats]:
        """Logarithms of low and high over the estimate, shape [n] each."""
        low, high = np.zeros(len(known)), np.zeros(len(known))
        key = (segment_index * NUM_SCALARS + regime) * 2 + known
        for number in np.unique(key).tolist():
            table = self.spread.known if number % 2 else self.spread.unseen
            segment = segments[number // 2 // NUM_SCALARS]
            rows = key == number
            low[rows], high[rows] = find_spread(table, segment, number // 2 % NUM_SCALARS)
        margin = _WIDER_PER_DOUBLING * np.minimum(beyond, 10.0)
        return low - margin, high + margin

    def _widen_vendors(
        self, low: Floats, high: Floats, devices: Sequence[Device], device_index: Integers
    ) -> tuple[Floats, Floats]:
        """The same, wider where no device of the vendor was measured for this family."""
        vendors = {vendor for vendor, _, _ in self.scalars.architectures.values()}
        unseen = np.array([device.vendor not in vendors for device in devices], dtype=bool)[device_index]
        margin = np.where(unseen, _NINETY * UNSEEN_VENDOR, 0.0)
        return np.where(unseen, -np.hypot(low, margin), low), np.where(unseen, np.hypot(high, margin), high)

    def nearest(self, kernels: KernelTable, device: Device) -> list[str]:
        """For each kernel the device and sizes measured nearest to it, in words."""
        sizes, segments = log_sizes(kernels), index_segments(kernels)
        return [self._nearest(segments[0][s], sizes[i], device) for i, s in enumerate(segments[1].tolist())]

    def _nearest(self, segment: Segment, sizes: Floats, device: Device) -> str:
        hull = self.hulls.get(segment)
        if hull is None:
            hull = next((h for key, h in self.hulls.items() if key[:2] == segment[:2]), None)
        if hull is None:
            return "no measurement of this operation in this format"
        if not len(hull.shapes):
            return f"whole steps on {', '.join(hull.devices)}"
        distance = np.abs(hull.shapes - sizes).sum(axis=1)
        own = np.array([name == device.name for name in hull.devices])[hull.shape_device]
        best = int(np.argmin(distance + np.where(own, 0.0, 4.0)))
        axes = SIZES[self.family.family]
        shape = ", ".join(f"{a} {2**v - 1:.0f}" for a, v in zip(axes, hull.shapes[best], strict=True))
        return f"{hull.devices[hull.shape_device[best]]}: {shape}"


def find_spread(
    table: Mapping[tuple[Segment, int], tuple[float, float]], segment: Segment, regime: int
) -> tuple[float, float]:
    """Quantiles of the nearest level that was fitted."""
    for level in coarser(segment):
        found = table.get((level, regime), table.get((level, -1)))
        if found is not None:
            return found
    return table[(), -1]


def architecture_code(device: Device, architectures: Sequence[Architecture]) -> int:
    """Which trained architecture runs the same kernels as a device; -1 for none."""
    exact = architecture_of(device)
    if exact in architectures:
        return list(architectures).index(exact)
    for number, (vendor, name, capability) in enumerate(architectures):
        if (vendor, name) == exact[:2] and capability.split(".")[0] == exact[2].split(".")[0]:
            return number
    return -1


def with_codes(features: Floats, codes: Integers) -> Floats:
    """Features, and the architecture's code in a last column: what ``FittedFamily.known`` takes."""
    return np.column_stack([features, codes.astype(np.float64)])


def log_sizes(kernels: KernelTable) -> Floats:
    """log₂(1 + size) of every axis, shape [n, axes]."""
    return np.log2(1.0 + np.column_stack([kernels.size(name) for name in SIZES[kernels.family]]))
