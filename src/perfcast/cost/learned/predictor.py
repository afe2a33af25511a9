"""A fitted family: physics × device scalars × residual, with an interval and a provenance.

    log seconds = log physics + u · s(device, segment) + residual(features)

The residual of a trained architecture comes from many trees that know which one it is; of another from
few trees, shrunk by a factor that leaving devices out chose, and in part from what the many trees say of the
nearest device that runs the same kernels (``kinship``). The interval is a quantile range of
log(measured / predicted): of rows held out, for trained devices; for others of architectures, whole
instruction families or whole vendors left out, whichever is the device's case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.kernel import SIZES, KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.family import Family, Physics
from perfcast.cost.learned.figures import collect_figures
from perfcast.cost.learned.kinship import (
    KINS,
    Architecture,
    Kin,
    Segment,
    architecture_of,
    is_kindred,
    is_on_matrix,
    nearest_of_family,
)
from perfcast.cost.learned.scalars import (
    NUM_SCALARS,
    DeviceScalars,
    coarser,
    index_segments,
    regime_shares,
    scalar_offsets,
    trust_key,
)
from perfcast.cost.learned.trees import Trees

INTERPOLATED, EXTRAPOLATED = "interpolated", "extrapolated"
#: How much wider an interval is for a kernel beyond all measured sizes: for each doubling, this much.
_WIDER_PER_DOUBLING = 0.06


#: By segment (or a coarser level) and regime.
Quantiles = Mapping[tuple[Segment, int], tuple[float, float]]


@dataclass(frozen=True)
class Spread:
    """5 % and 95 % quantiles of log(measured / predicted), of devices measured and not.

    Of those not, by how near the nearest measured ones are; the farther, the wider.
    """

    known: Quantiles
    unseen: Mapping[Kin, Quantiles]


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
        family_error: With all devices left out whose matrix units take the same instructions.
        vendor_error: With all devices of its vendor left out.
    """

    operation: str
    dtype: str
    device: str
    count: int
    known_error: float | None
    unseen_error: float | None
    family_error: float | None = None
    vendor_error: float | None = None


@dataclass(frozen=True)
class KernelEstimates:
    """What n kernels take, shape [n] each; shares are of the physics' time, see ``scalars.regime_shares``.

    Attributes:
        is_foreign: Whether nobody's of the device's vendor was measured.
    """

    seconds: Floats
    seconds_low: Floats
    seconds_high: Floats
    overhead_share: Floats
    compute_share: Floats
    provenance: Objects
    is_foreign: Flags


@dataclass(frozen=True)
class FittedFamily:
    """What training leaves behind for one family.

    Attributes:
        architectures: Those that ``known`` was trained on; a kernel's code is the place in this list.
        trained: (code, operation, format) that ``known`` has seen: it speaks of nothing else. Operations
            of products are one kernel library's; there the format alone counts.
        shrink: Of the common trees' residual, what an unseen device takes, by ``trust_key``.
        coverage: By kin, share of measurements of devices left out inside an interval that others made.
        acquainted: Vendors of whom some kernel was measured, of this family or another.
        lean: Of the residual of an unseen device, the part that ``known`` says as if it were the nearest of
            its instruction family.
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
    lean: float = 0.0
    coverage: Mapping[Kin, float] = field(default_factory=dict)
    acquainted: frozenset[str] = frozenset()

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
        residual, is_own = self._residual(kernels, devices, device_index, physics)
        seconds = physics.seconds * np.exp(np.clip(offset + residual, -3.0, 3.0))
        floor = np.maximum(physics.compute_seconds, physics.memory_seconds)
        seconds = np.maximum(seconds, floor)
        headroom = np.array([device.clock_headroom for device in devices], dtype=np.float64)[device_index]
        least = np.maximum(physics.compute_seconds * headroom, physics.memory_seconds)
        beyond = self._beyond(kernels, segments, segment_index)
        known = own & is_own
        kins = self._kins(devices, segments)[device_index, segment_index]
        low, high = self._interval(
            segments, segment_index, shares.argmax(axis=1), np.where(known, 0, 1 + kins), beyond
        )
        return KernelEstimates(
            seconds=seconds,
            seconds_low=np.maximum(seconds * np.exp(low), np.minimum(least, seconds)),
            seconds_high=seconds * np.exp(high),
            overhead_share=shares[:, 0],
            compute_share=shares[:, 1],
            provenance=np.where(known & (beyond <= 0), INTERPOLATED, EXTRAPOLATED).astype(object),
            is_foreign=~known & (kins == KINS.index("none")),
        )

    def _residual(
        self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers, physics: Physics
    ) -> tuple[Floats, Flags]:
        """What trees say of each kernel, and whether its own architecture's do; shape [n] each."""
        segments, segment_index = index_segments(kernels)
        code_table, own_table = self._codes(devices, segments)
        codes, is_own = code_table[device_index, segment_index], own_table[device_index, segment_index]
        share = np.where(is_own, 1.0, np.where(codes >= 0, self.lean, 0.0)) * (self.known is not None)
        residual, rows = np.zeros(len(physics.seconds)), share > 0
        if self.known is not None and rows.any():
            residual[rows] = share[rows] * self.known.predict(with_codes(physics.features[rows], codes[rows]))
        rows = share < 1
        if rows.any():
            shrink = self._shrink(devices, segments)[device_index, segment_index][rows]
            residual[rows] += (1 - share[rows]) * shrink * self.common.predict(physics.features[rows])
        return residual, is_own

    def _codes(self, devices: Sequence[Device], segments: Sequence[Segment]) -> tuple[Integers, Flags]:
        """Codes of architectures for which ``known`` has seen a segment, shape [devices, segments].

        The device's own, or that of the nearest of its instruction family; -1 for neither; and whether it is
        its own.
        """
        shape = (len(devices), max(len(segments), 1))
        codes, is_own = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=bool)
        for row, device in enumerate(devices):
            own = architecture_code(device, self.architectures)
            for column, segment in enumerate(segments):
                if self._has_seen(own, segment):
                    codes[row, column], is_own[row, column] = own, True
                elif self.lean and is_on_matrix(segment):
                    codes[row, column] = self._borrowed_code(device, segment)
        return codes, is_own

    def _has_seen(self, code: int, segment: Segment) -> bool:
        name = "" if self.family.family is KernelFamily.PRODUCT else segment[0]
        return (code, name, segment[1]) in self.trained

    def _borrowed_code(self, device: Device, segment: Segment) -> int:
        """Of the nearest of its family, but of no device of its own architecture that lacks the segment."""
        own = architecture_of(device)
        seen = [a for code, a in enumerate(self.architectures) if self._has_seen(code, segment)]
        nearest = nearest_of_family(own, [a for a in seen if is_kindred(own, a, on_matrix=True)])
        return -1 if nearest is None else self.architectures.index(nearest)

    def _shrink(self, devices: Sequence[Device], segments: Sequence[Segment]) -> Floats:
        """Trust in each device and segment, shape [devices, segments]; where none was chosen, the mean."""
        mean = float(np.mean(list(self.shrink.values()))) if self.shrink else 0.0

        def of(device: Device, segment: Segment) -> float:
            kin = self.scalars.kin(device, segment)
            return self.shrink.get(trust_key(kin, device.vendor, segment), self.shrink.get(kin, mean))

        table = [[of(device, segment) for segment in segments] for device in devices]
        return np.array(table, dtype=np.float64).reshape(len(devices), len(segments))

    def _kins(self, devices: Sequence[Device], segments: Sequence[Segment]) -> Integers:
        """Place in ``KINS`` of each device and segment, shape [devices, segments]."""

        def of(device: Device, segment: Segment) -> Kin:
            kin = self.scalars.kin(device, segment)
            return "elsewhere" if kin == "none" and device.vendor in self.acquainted else kin

        table = [[KINS.index(of(device, segment)) for segment in segments] for device in devices]
        return np.array(table, dtype=np.int64).reshape(len(devices), len(segments))

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
        distance: Integers,
        beyond: Floats,
    ) -> tuple[Floats, Floats]:
        """Logarithms of low and high over the estimate, shape [n] each; a farther kin is never surer.

        Args:
            distance: 0 for a device that was measured, else 1 + place in ``KINS``.
        """
        tables = [self.spread.known, *(self.spread.unseen[kin] for kin in KINS)]
        low, high = np.zeros(len(distance)), np.zeros(len(distance))
        key = (segment_index * NUM_SCALARS + regime) * len(tables) + distance
        for number in np.unique(key).tolist():
            place, which = divmod(number, len(tables))
            rows = key == number
            segment, dominant = segments[place // NUM_SCALARS], place % NUM_SCALARS
            spans = [find_spread(table, segment, dominant) for table in tables[: which + 1] if table]
            low[rows], high[rows] = min(one for one, _ in spans), max(one for _, one in spans)
        margin = _WIDER_PER_DOUBLING * np.minimum(beyond, 10.0)
        return low - margin, high + margin

    def span_of(self, device: Device, segment: Segment) -> tuple[float, float]:
        """Logarithms of low and high over the estimate of a segment, whatever its regime and sizes."""
        kin = int(self._kins([device], [segment])[0, 0])
        distance = 0 if device.name in self.scalars.architectures else 1 + kin
        at = np.zeros(1, dtype=np.int64)
        low, high = self._interval([segment], at, at, at + distance, np.zeros(1))
        return float(low[0]), float(high[0])

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


def find_spread(table: Quantiles, segment: Segment, regime: int) -> tuple[float, float]:
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
