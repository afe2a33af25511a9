"""What a kernel's forecast error may have in common with another's.

Devices differ from each other in ways that were measured before: ``leanings`` say how far the forecast of a
kernel would move if the device were like each of the trained architectures. A device that was never measured
is a mixture of those and of something new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Objects
from perfcast.core.kernel import SIZES, KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.kinship import Architecture, Segment
from perfcast.cost.learned.predictor import FittedFamily, KernelEstimates, log_sizes, with_codes
from perfcast.cost.learned.scalars import coarser, index_segments, regime_shares

#: Standard deviations from the lower to the upper end of a 90 % interval.
_NINETY = 3.29
_LEAST_SPREAD = 0.03
_MOST_LEANING = 1.5
_MOST_AXES = max(len(axes) for axes in SIZES.values())
#: Levels of a segment from which an architecture's scalars are taken: down to the operation.
_LEVELS = 4


@dataclass(frozen=True, eq=False)
class Traits:
    """Of n kernels on one device.

    Attributes:
        family, operation, dtype, framework: Words, shape [n] each; attention's format names its cache's too.
        regimes: Shares of overhead, computing and memory, of length 1, shape [n, 3].
        sizes: log₂ sizes in the order of the family's ``SIZES``, 0 beyond, shape [n, axes].
        spread: Standard deviation of log(measured / forecast) by the forecast's own interval, shape [n].
        architectures: Those that any of the families was trained on.
        leanings: log of what the forecast would be on each of them over what it is, shape [n, architectures].
    """

    family: Objects
    operation: Objects
    dtype: Objects
    framework: Objects
    regimes: Floats
    sizes: Floats
    spread: Floats
    architectures: tuple[Architecture, ...]
    leanings: Floats

    def __len__(self) -> int:
        return len(self.spread)

    @property
    def mean_leaning(self) -> Floats:
        """Over the architectures that say something of a kernel, shape [n]."""
        counts = (self.leanings != 0).sum(axis=1)
        return np.asarray(self.leanings.sum(axis=1) / np.maximum(counts, 1), dtype=np.float64)

    def on(self, architectures: tuple[Architecture, ...]) -> Traits:
        """The same with leanings for these architectures, 0 where nothing is known."""
        columns = np.zeros((len(self), len(architectures)))
        for number, architecture in enumerate(architectures):
            if architecture in self.architectures:
                columns[:, number] = self.leanings[:, self.architectures.index(architecture)]
        return replace(self, architectures=architectures, leanings=columns)

    def take(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Traits:
        """Some of the kernels."""
        names = ("family", "operation", "dtype", "framework", "regimes", "sizes", "spread", "leanings")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def describe_traits(
    fitted: FittedFamily, kernels: KernelTable, device: Device, estimates: KernelEstimates, physics: Physics
) -> Traits:
    """Traits of kernels that were estimated on a device."""
    segments, index = index_segments(kernels)
    named = (
        np.array([*segments, ("", "", "")], dtype=object)[index] if len(kernels) else np.empty((0, 3), object)
    )
    shares = regime_shares(physics)
    wide = np.log(estimates.seconds_high / estimates.seconds_low) / _NINETY
    sizes = np.zeros((len(kernels), _MOST_AXES))
    sizes[:, : len(SIZES[kernels.family])] = log_sizes(kernels)
    return Traits(
        family=np.full(len(kernels), kernels.family.value, dtype=object),
        operation=named[:, 0],
        dtype=named[:, 1],
        framework=named[:, 2],
        regimes=shares / np.linalg.norm(shares, axis=1, keepdims=True),
        sizes=sizes,
        spread=np.maximum(wide, _LEAST_SPREAD),
        architectures=fitted.architectures,
        leanings=_leanings(fitted, segments, index, shares, physics, estimates.seconds),
    )


def join_traits(parts: Sequence[Traits]) -> Traits:
    """One after the other, with leanings for the architectures of all."""
    every = tuple(sorted({architecture for part in parts for architecture in part.architectures}))
    parts = [part.on(every) for part in parts]

    words = ("family", "operation", "dtype", "framework")
    family, operation, dtype, framework = (np.concatenate([getattr(p, w) for p in parts]) for w in words)
    return Traits(
        family=family,
        operation=operation,
        dtype=dtype,
        framework=framework,
        regimes=np.concatenate([part.regimes for part in parts]),
        sizes=np.concatenate([part.sizes for part in parts]),
        spread=np.concatenate([part.spread for part in parts]),
        architectures=every,
        leanings=np.concatenate([part.leanings for part in parts]),
    )


def _leanings(
    fitted: FittedFamily,
    segments: Sequence[Segment],
    index: np.ndarray[tuple[int], np.dtype[np.int64]],
    shares: Floats,
    physics: Physics,
    seconds: Floats,
) -> Floats:
    """log(forecast as on an architecture / forecast), 0 where that was never measured; [n, architectures]."""
    leanings = np.zeros((len(seconds), len(fitted.architectures)))
    if fitted.known is None:
        return leanings
    base = np.log(seconds / physics.seconds)
    for code in range(len(fitted.architectures)):
        offset, present = np.zeros(len(seconds)), np.zeros(len(seconds), dtype=bool)
        for number, segment in enumerate(segments):
            scalars = _scalars_of(fitted, code, segment)
            if scalars is not None:
                rows = index == number
                offset[rows], present[rows] = shares[rows] @ scalars, True
        if present.any():
            residual = fitted.known.predict(
                with_codes(physics.features[present], np.full(int(present.sum()), code, dtype=np.int64))
            )
            leaning = offset[present] + residual - base[present]
            leanings[present, code] = np.clip(leaning, -_MOST_LEANING, _MOST_LEANING)
    return leanings


def _scalars_of(fitted: FittedFamily, code: int, segment: Segment) -> Floats | None:
    """Mean scalars of an architecture's devices for a segment that it was trained on."""
    name = "" if fitted.family.family is KernelFamily.PRODUCT else segment[0]
    if (code, name, segment[1]) not in fitted.trained:
        return None
    wanted = fitted.architectures[code]
    devices = [device for device, its in fitted.scalars.architectures.items() if its == wanted]
    for level in coarser(segment)[:_LEVELS]:
        found = [
            fitted.scalars.values[device, level]
            for device in devices
            if (device, level) in fitted.scalars.values
        ]
        if found:
            return np.asarray(np.mean(found, axis=0), dtype=np.float64)
    return None
