"""What distinguishes a device from the physics of all: three numbers for each kind of kernel.

    log(measured / physics) = u · s[device, segment] + residual(features)

u holds the shares of overhead, computing and memory in the physics' time, so that s are the logarithms
of how much slower a device is in each. A trained device has s of its own; an unseen one takes the mean
of the others, those that run the same kernels first (``kinship``); a few measurements on it move that mean
(Bayesian linear regression with the spread among devices as prior).

A segment is an operation in a format by a framework. Where one was never measured, the next coarser one
stands in: the operation in the format, the operation, everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.kernel import KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.kinship import (
    Architecture,
    Kin,
    Segment,
    architecture_of,
    is_alike,
    is_kindred,
    is_on_matrix,
    nearest_kin,
    nearest_of_family,
)
from perfcast.cost.learned.sustained import has_power_to_spare, sustained_share

NUM_SCALARS = 3
#: Operations whose units run every format at a rate of its own.
_PRODUCTS = ("linear", "moe")
COMPUTE = 1
#: Residuals below this count as equally good: robust regression by reweighting.
_ROBUST = 0.05
_RIDGE = 10.0
#: In the mean for an unseen device the nearest of its instruction family, and devices of its own
#: architecture, count this much more than others; the rest of the family this much.
_NEAREST = 6.0
_SAME_FAMILY = 2.0


def regime_shares(physics: Physics) -> Floats:
    """Shares of overhead, computing and memory, shape [n, 3]; each row sums to 1."""
    roof = np.maximum(physics.compute_seconds, physics.memory_seconds)
    overhead = np.maximum(physics.seconds - roof, 1e-3 * physics.seconds)
    shares = np.column_stack([overhead, physics.compute_seconds, physics.memory_seconds])
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), dtype=np.float64)


def index_segments(kernels: KernelTable) -> tuple[list[Segment], Integers]:
    """The different segments, and which one each kernel belongs to.

    A segment is (operation, format, framework); attention's format names its cache's too. Experts whose
    weights lie in no cache are the same kernels as those that were measured with some of them in one.
    """
    operations, dtypes, frameworks = (kernels.word(n).tolist() for n in ("operation", "dtype", "framework"))
    operations = [operation.removesuffix("_cold") for operation in operations]
    if "kv_dtype" in kernels.columns:
        caches = kernels.word("kv_dtype").tolist()
        dtypes = [f"{dtype}/{cache}" for dtype, cache in zip(dtypes, caches, strict=True)]
    every: list[Segment] = list(zip(operations, dtypes, frameworks, strict=True))
    segments = sorted(set(every))
    position = {segment: index for index, segment in enumerate(segments)}
    return segments, np.fromiter(map(position.__getitem__, every), np.int64, len(every))


def coarser(segment: Segment) -> list[Segment]:
    """The segment and what stands in for it, nearest first."""
    operation, dtype, framework = segment
    return [segment, (operation, dtype), (operation, "", framework), (operation,), ("", dtype), ()]


@dataclass(frozen=True)
class DeviceScalars:
    """Fitted scalars.

    Attributes:
        values: (device, segment at any level) → scalars, shape [3].
        architectures: Of each device: (vendor, architecture, compute capability).
        spread: Standard deviation over devices, shape [3].
        trust: How much of the others' mean an unseen device takes, 0 to 1, by ``trust_key``; leaving
            devices out chose it.
        sustained: Of each device, the sustained share of ordinary and of matrix units.
        apart: By how near the nearest measured devices were to one left out: root mean square of the median
            of log(measured / predicted) of its operations and formats.
    """

    values: Mapping[tuple[str, Segment], Floats]
    architectures: Mapping[str, Architecture]
    spread: Floats
    trust: Mapping[str, float] = field(default_factory=dict)
    sustained: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    apart: Mapping[Kin, float] = field(default_factory=dict)

    def known(self, device: Device, segment: Segment) -> Floats | None:
        """Scalars of a trained device for a segment or the nearest coarser one.

        None where that would mix other formats of a product, and a device of its architecture was measured in
        this one: how far a product falls short depends more on its format than on which sibling runs it.
        """
        for level in coarser(segment):
            found = self.values.get((device.name, level))
            if found is not None:
                mixes = segment[0] in _PRODUCTS and level[:1] == segment[:1] and level[1:2] in ((), ("",))
                return None if mixes and self._is_measured_on_sibling(device, segment[:2]) else found
        return None

    def _is_measured_on_sibling(self, device: Device, level: Segment) -> bool:
        own = architecture_of(device)
        return any(
            key == level and name != device.name and is_alike(own, self.architectures[name])
            for name, key in self.values
        )

    def expected(self, device: Device, segment: Segment) -> Floats:
        """Mean over the trained devices of its vendor, weighted towards those that run the same kernels.

        Where the vendor has none, over all devices, every vendor alike.
        """
        level, members = self._nearest_level(device, segment)
        if not members:
            return np.zeros(NUM_SCALARS)
        kin = self._kin_among(device, segment, members)
        trust = self.trust.get(trust_key(kin, device.vendor, segment), self.trust.get(kin, 1.0))
        return trust * self._mean(device, segment, level, members)

    def kin(self, device: Device, segment: Segment) -> Kin:
        """How near the devices are from which an unseen one takes its scalars."""
        return self._kin_among(device, segment, self._nearest_level(device, segment)[1])

    @cached_property
    def _members(self) -> Mapping[Segment, list[str]]:
        """Devices by level."""
        found: defaultdict[Segment, list[str]] = defaultdict(list)
        for name, level in self.values:
            found[level].append(name)
        return dict(found)

    def _nearest_level(self, device: Device, segment: Segment) -> tuple[Segment, list[str]]:
        """The first level that was measured, and on which devices: the vendor's, else all."""
        for level in coarser(segment):
            members = self._members.get(level, [])
            related = [name for name in members if self.architectures[name][0] == device.vendor]
            if members:
                return level, related or members
        return (), []

    def _kin_among(self, device: Device, segment: Segment, members: Sequence[str]) -> Kin:
        others = {self.architectures[name] for name in members}
        return nearest_kin(architecture_of(device), others, is_on_matrix(segment))

    def _shift(self, device: Device, relative: str, segment: Segment) -> Floats:
        """Between two devices of one family, half of what the law of sustained clocks says differs.

        The physics holds all of it; the relative's scalar shows how far the law was from the truth there.
        Where there is power to spare, the law is not in doubt, and nothing is taken back.
        """
        shift, on_matrix = np.zeros(NUM_SCALARS), is_on_matrix(segment)
        own, other = architecture_of(device), self.architectures[relative]
        if relative in self.sustained and is_kindred(own, other, on_matrix):
            there = self.sustained[relative][on_matrix]
            if has_power_to_spare(device, on_matrix):
                return shift
            shift[COMPUTE] = 0.5 * np.log(sustained_share(device, on_matrix) / there)
        return shift

    def _mean(self, device: Device, segment: Segment, level: Segment, members: Sequence[str]) -> Floats:
        groups: defaultdict[Architecture, list[Floats]] = defaultdict(list)
        for name in members:
            groups[self.architectures[name]].append(
                self.values[name, level] + self._shift(device, name, level)
            )
        means = np.array([np.mean(values, axis=0) for values in groups.values()])
        weights = _weights(architecture_of(device), list(groups), is_on_matrix(segment))
        return np.asarray(np.average(means, axis=0, weights=weights), dtype=np.float64)


def _weights(own: Architecture, others: Sequence[Architecture], on_matrix: bool) -> Floats:
    """Of others in the mean for one: kindred ones first; where all are foreign, vendors count alike."""
    vendors = [vendor for vendor, _, _ in others]
    if own[0] not in vendors:
        return np.array([1.0 / vendors.count(vendor) for vendor in vendors])
    nearest = nearest_of_family(own, others) if on_matrix else None
    weights = np.ones(len(others))
    for index, other in enumerate(others):
        if other == nearest or is_alike(own, other):
            weights[index] += _NEAREST
        elif is_kindred(own, other, on_matrix):
            weights[index] += _SAME_FAMILY
    return weights


def vendor_key(vendor: str, segment: Segment) -> str:
    """What leaving devices out decides is decided for each vendor, operation and format."""
    return "|".join((vendor, *segment[:2]))


def trust_key(kin: Kin, vendor: str, segment: Segment) -> str:
    """The same where other devices of the vendor were measured; of a family whoever makes it; else once."""
    if kin == "vendor":
        return vendor_key(vendor, segment)
    return "|".join((kin, *segment[:2])) if kin == "family" else kin


def fit_scalars(
    residual: Floats,
    shares: Floats,
    device_index: Integers,
    devices: Sequence[Device],
    segments: Sequence[Segment],
    segment_index: Integers,
) -> DeviceScalars:
    """Scalars of every device and segment, by robust ridge regression of ``residual`` on ``shares``."""
    values: dict[tuple[str, Segment], Floats] = {}
    for index, device in enumerate(devices):
        mine = np.flatnonzero(device_index == index)
        by_level: defaultdict[Segment, list[int]] = defaultdict(list)
        for number in np.unique(segment_index[mine]).tolist():
            for level in coarser(segments[number]):
                by_level[level].append(number)
        for level, numbers in by_level.items():
            rows = mine[np.isin(segment_index[mine], numbers)]
            values[device.name, level] = solve_scalars(
                residual[rows], shares[rows], np.zeros(NUM_SCALARS), np.full(NUM_SCALARS, _RIDGE)
            )
    spread = np.std([v for (_, level), v in values.items() if level == ()], axis=0) if values else np.ones(3)
    architectures = {d.name: architecture_of(d) for d in devices}
    sustained = {d.name: (sustained_share(d, False), sustained_share(d, True)) for d in devices}
    floor = np.maximum(np.asarray(spread), 0.05)
    return DeviceScalars(values, architectures, floor, sustained=sustained)


def solve_scalars(residual: Floats, shares: Floats, prior: Floats, ridge: Floats) -> Floats:
    """argmin Σ |residual − shares · s| + Σ ridge · (s − prior)², up to the scale of the first sum.

    Least squares first, then reweighted towards least absolute deviations around what that found.
    """
    weight, scalars = np.ones(len(residual)), prior.copy()
    for _ in range(8):
        normal = (shares * weight[:, None]).T @ shares + np.diag(ridge)
        right = (shares * weight[:, None]).T @ residual + ridge * prior
        scalars = np.asarray(np.linalg.solve(normal, right), dtype=np.float64)
        weight = _ROBUST / np.maximum(np.abs(residual - shares @ scalars), _ROBUST)
    return scalars


def scalar_offsets(
    scalars: DeviceScalars,
    shares: Floats,
    device_index: Integers,
    devices: Sequence[Device],
    segments: Sequence[Segment],
    segment_index: Integers,
    use_known: bool = True,
) -> tuple[Floats, Flags]:
    """u · s of each kernel, and whether s is the device's own; each shape [n]."""
    pairs, which = np.unique(device_index * len(segments) + segment_index, return_inverse=True)
    of_pair, own = np.zeros((len(pairs), NUM_SCALARS)), np.zeros(len(pairs), dtype=bool)
    for number, pair in enumerate(pairs.tolist()):
        device, segment = devices[pair // len(segments)], segments[pair % len(segments)]
        known = scalars.known(device, segment) if use_known else None
        of_pair[number] = scalars.expected(device, segment) if known is None else known
        own[number] = known is not None
    return (shares * of_pair[which]).sum(axis=1), own[which]
