"""Measured kernels ready to be fitted to: physics and shares of regimes once, whatever is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.kernel import KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.family import Family, Physics
from perfcast.cost.learned.figures import collect_figures
from perfcast.cost.learned.kinship import Architecture, Segment, architecture_of
from perfcast.cost.learned.scalars import (
    DeviceScalars,
    fit_scalars,
    index_segments,
    regime_shares,
    scalar_offsets,
)
from perfcast.cost.learned.trees import COMMON, Trees, TreeSettings, fit_trees


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """n measured kernels of one family.

    Attributes:
        device_index: Of each row, into ``devices``.
    """

    kernels: KernelTable
    seconds: Floats
    devices: tuple[Device, ...]
    device_index: Integers

    def take(self, rows: Integers | Flags) -> TrainingRows:
        """Some of the rows; the devices stay."""
        return TrainingRows(
            self.kernels.take(rows), self.seconds[rows], self.devices, self.device_index[rows]
        )


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows with everything that does not depend on what is left out.

    Attributes:
        target: log(measured / physics), shape [n].
        fold: Place of each row's architecture among ``architectures_of(rows.devices)``.
    """

    rows: TrainingRows
    physics: Physics
    target: Floats
    shares: Floats
    segments: list[Segment]
    segment_index: Integers
    fold: Integers
    threads: int

    def scalars(self, residual: Floats, chosen: Flags) -> DeviceScalars:
        """Fitted to some of the rows."""
        return fit_scalars(
            residual[chosen], self.shares[chosen], self.rows.device_index[chosen],
            self.rows.devices, self.segments, self.segment_index[chosen],
        )  # fmt: skip

    def offsets(self, scalars: DeviceScalars) -> Floats:
        """u · s of every row, shape [n]."""
        return scalar_offsets(
            scalars, self.shares, self.rows.device_index, self.rows.devices,
            self.segments, self.segment_index,
        )[0]  # fmt: skip

    def weights(self, chosen: Flags) -> Floats:
        """Every architecture counts alike, and within it every segment by the root of its rows."""
        weight = np.zeros(len(self.target))
        for fold in np.unique(self.fold[chosen]).tolist():
            mine = chosen & (self.fold == fold)
            counts = np.bincount(self.segment_index[mine], minlength=len(self.segments))
            weight[mine] = 1.0 / np.sqrt(counts[self.segment_index[mine]])
            weight[mine] /= weight[mine].sum()
        return np.asarray(weight * chosen.sum() / max(weight.sum(), 1e-300))


def prepare(family: Family, rows: TrainingRows, threads: int) -> Prepared:
    """Physics of every row on its device."""
    figures = collect_figures(rows.devices, rows.device_index, rows.kernels.word("dtype"))
    physics = family.describe(rows.kernels, figures)
    segments, segment_index = index_segments(rows.kernels)
    architectures = architectures_of(rows.devices)
    of_device = np.array([architectures.index(architecture_of(d)) for d in rows.devices])
    return Prepared(
        rows=rows,
        physics=physics,
        target=np.log(rows.seconds / physics.seconds),
        shares=regime_shares(physics),
        segments=segments,
        segment_index=segment_index,
        fold=of_device[rows.device_index],
        threads=threads,
    )


def architectures_of(devices: Sequence[Device]) -> tuple[Architecture, ...]:
    """Of some devices, each once, in order."""
    return tuple(sorted({architecture_of(d) for d in devices}))


def fit_common(
    p: Prepared, chosen: Flags, settings: TreeSettings = COMMON
) -> tuple[DeviceScalars, Trees, Floats]:
    """Scalars and common trees in turn, each on what the other leaves."""
    weight, residual = p.weights(chosen), np.zeros(len(p.target))
    for _ in range(2):
        scalars = p.scalars(p.target - residual, chosen)
        offsets = p.offsets(scalars)
        trees = fit_trees(
            p.physics.features[chosen], (p.target - offsets)[chosen], weight[chosen], settings, p.threads
        )
        residual = trees.predict(p.physics.features)
    # Scalars go without the trees, whose part in them is the shrinkage's to decide.
    scalars = p.scalars(p.target, chosen)
    return scalars, trees, p.offsets(scalars)
