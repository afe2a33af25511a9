"""Recorded kernels on another device.

    after = stated after · (recorded / stated before) ** sharing

What is stated of kernels is their price and what a vendor's libraries and launches add (``eager_kernels``).
What a recorded kernel takes beyond that belongs in part to its program (a rule that misses traffic, a layout)
and comes along, and in part to one vendor's library, and does not.

How much comes along is assumed, and the interval says so.

Errors of prices and constants are a family's: all of its kernels err together, families err apart.
Half-widths of a family's time add up, those of families join as the root of their summed squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.operation import Operation
from perfcast.traces.events import Category, Trace
from perfcast.traces.forecast.eager_kernels import (
    SHARING_DOUBT,
    EagerKernels,
    KernelFamily,
    VendorKernels,
    family_of,
    kernels_of,
    load_eager_kernels,
    sharing,
)
from perfcast.traces.forecast.ratios import (
    AS_RECORDED,
    BOUNDED,
    BOUNDED_SPREAD,
    PRICED,
    PairPrices,
    Provenance,
    Ratios,
    Side,
    price_pairs,
)
from perfcast.traces.timeline.program import DeviceWork

#: The cost model whose prices the constants of kernels belong to.
LEARNED = "learned"
#: Copies between host and device run over another machine's link: this many times faster or slower.
LINK_SPREAD = 2.0
_NORMAL = 1.6449  # 95th percentile


@dataclass(frozen=True)
class RecordedWorks:
    """Works of a rank: seconds, the operation of each as recorded and as wanted, and how many share one call.

    Attributes:
        num_kernels: Works that its operator launched, itself included.
        operator_seconds: Of all of them.
        stays: Those that take as long elsewhere: collectives.
        is_link: Copies between host and device.
    """

    seconds: Floats
    before: Sequence[Operation | None]
    after: Sequence[Operation | None]
    num_kernels: Floats
    operator_seconds: Floats
    stays: Flags
    is_link: Flags


def recorded_works(
    trace: Trace,
    works: Sequence[DeviceWork],
    before: Sequence[Operation | None],
    after: Sequence[Operation | None],
) -> RecordedWorks:
    """A rank's works with what operators they belong to."""
    seconds = np.array([work.seconds for work in works])
    groups: dict[tuple[int, int], list[int]] = {}
    for index, work in enumerate(works):
        groups.setdefault((work.operator, -1 if work.operator >= 0 else index), []).append(index)
    counts, sums = np.ones(len(works)), seconds.copy()
    for indices in groups.values():
        counts[indices], sums[indices] = len(indices), seconds[indices].sum()
    stays = np.array([bool(work.collective) for work in works], dtype=np.bool_)
    is_link = np.array([_is_link(trace, work) for work in works], dtype=np.bool_)
    return RecordedWorks(seconds, before, after, counts, sums, stays, is_link)


def _is_link(trace: Trace, work: DeviceWork) -> bool:
    """Whether a work copies between host and device, as CUDA and ROCm name that."""
    is_copy = trace.events.category(work.row) is Category.MEMCPY
    return is_copy and ("HtoD" in work.name or "DtoH" in work.name)


def ratios_elsewhere(
    works: RecordedWorks,
    before: Side,
    after: Side,
    bytes_ratio: float = 1.0,
    constants: Mapping[str, VendorKernels] | None = None,
) -> Ratios:
    """New over recorded seconds of each work on another device.

    Args:
        bytes_ratio: How much more data work without a rule moves than it did.
        constants: By vendor; default: the shipped ones.

    Raises:
        PlanError: A device lacks arithmetic in a precision that was recorded.
    """
    known = constants or load_eager_kernels()
    ours, theirs = kernels_of(before.device, known), kernels_of(after.device, known)
    prices = price_pairs(works.before, works.after, before, after)
    shared = sharing(before.device, after.device)
    bandwidth = before.device.memory_bytes_per_second / after.device.memory_bytes_per_second * bytes_ratio
    count = len(works.seconds)
    ratio, width = np.ones(count), np.zeros(count)
    families: list[KernelFamily] = [family_of(operation) for operation in works.before]
    provenance: list[Provenance] = [PRICED] * count
    for index, family in enumerate(families):
        if works.stays[index]:
            provenance[index] = AS_RECORDED
        elif works.is_link[index]:
            provenance[index], width[index] = AS_RECORDED, math.log(LINK_SPREAD)
        elif prices.is_known[index]:
            ratio[index] = _ratio(works, prices, index, (ours[family], theirs[family]), shared)
            beyond = _beyond(works, prices, index, ours[family])
            width[index] = _width(prices, index, theirs[family].deviation, shared, beyond)
        else:
            provenance[index], width[index] = BOUNDED, math.log(BOUNDED_SPREAD)
            ratio[index] = _bounded(works, index, (ours[family], theirs[family]), bandwidth)
    low, high = _ends(works, ratio, width, [_group(p, f) for p, f in zip(provenance, families, strict=True)])
    return Ratios(ratio, low, high, tuple(provenance))


def _ratio(
    works: RecordedWorks,
    prices: PairPrices,
    index: int,
    constants: tuple[EagerKernels, EagerKernels],
    shared: float,
) -> float:
    """Of one priced work."""
    ours, theirs = constants
    recorded, kernels = float(works.operator_seconds[index]), float(works.num_kernels[index])
    stated = ours.seconds(float(prices.before[index]), kernels)
    will = theirs.seconds(float(prices.after[index]), kernels)
    if recorded <= 0 or stated <= 0:
        return will / stated if stated > 0 else 1.0
    return float(will * math.exp(shared * _beyond(works, prices, index, ours)) / recorded)


def _beyond(works: RecordedWorks, prices: PairPrices, index: int, ours: EagerKernels) -> float:
    """What a recorded work took beyond what is stated of it, in logarithms."""
    recorded, kernels = float(works.operator_seconds[index]), float(works.num_kernels[index])
    stated = ours.seconds(float(prices.before[index]), kernels)
    return math.log(recorded / stated) if recorded > 0 and stated > 0 else 0.0


def _bounded(
    works: RecordedWorks, index: int, constants: tuple[EagerKernels, EagerKernels], bandwidth: float
) -> float:
    """Of work without a rule: each kernel's own time by the vendor, what is beyond it by memory bandwidth."""
    seconds = float(works.seconds[index])
    if seconds <= 0:
        return 1.0
    ours, theirs = (one.kernel_seconds for one in constants)
    fixed = min(ours, seconds)
    return ((seconds - fixed) * bandwidth + (fixed * theirs / ours if ours else 0.0)) / seconds


def _width(prices: PairPrices, index: int, deviation: float, shared: float, beyond: float) -> float:
    """Half-width of a family's time, 90 %, in logarithms: what two devices do not share of its errors.

    Args:
        beyond: What was recorded over what is stated, in logarithms: how much of it comes along is assumed.
    """
    price = math.log(prices.high[index] / prices.after[index]) if prices.after[index] > 0 else 0.0
    own = math.hypot(_NORMAL * deviation, math.sqrt(float(prices.common[index])) * price)
    return math.hypot(math.sqrt(1 - shared**2) * own, _NORMAL * SHARING_DOUBT * (1 - shared) * beyond)


def _group(provenance: Provenance, family: KernelFamily) -> str:
    return family if provenance == PRICED else provenance


def _ends(works: RecordedWorks, ratio: Floats, width: Floats, groups: Sequence[str]) -> tuple[Floats, Floats]:
    """Ratios at both ends: families err apart, so that all of them together err less than each."""
    seconds = works.seconds * ratio
    above, below = seconds * np.expm1(width), -seconds * np.expm1(-width)
    _, places = np.unique(np.array(groups, dtype=str), return_inverse=True)

    def part(widths: Floats) -> float:
        sums = np.bincount(places, weights=widths)
        total = float(sums.sum())
        return float(np.sqrt((sums**2).sum())) / total if total > 0 else 1.0

    recorded = np.where(works.seconds > 0, works.seconds, 1.0)
    return ratio - part(below) * below / recorded, ratio + part(above) * above / recorded
