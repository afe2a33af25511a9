"""The roofline as a predictor of kernels: max(flops / peak, bytes / bandwidth).

The baseline of every study; Williams, Waterman, Patterson, CACM 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.families import experts, scan
from perfcast.cost.learned.families.attention import physics as attention
from perfcast.cost.learned.family import Family
from perfcast.cost.learned.figures import ARITHMETIC, Figures, collect_figures
from perfcast.published.comparison import print_part
from perfcast.published.kernels.work import KernelWork, convolution_work, product_work, row_kernel_work

#: Families whose work the learned forecaster describes: rooflines there leave out what the caches hold.
_DESCRIBED: Mapping[KernelFamily, Family] = {
    KernelFamily.ATTENTION: attention,
    KernelFamily.EXPERTS: experts,
    KernelFamily.SCAN: scan,
}

_WORK: Mapping[KernelFamily, Callable[[KernelTable], KernelWork]] = {
    KernelFamily.PRODUCT: product_work,
    KernelFamily.CONVOLUTION: convolution_work,
    KernelFamily.ROWS: row_kernel_work,
}


@dataclass(frozen=True)
class KernelRoofline:
    """Datasheet peaks only."""

    name: str = "roofline"

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds, shape [n]; NaN for formats that are not known."""
        seconds = np.full(len(kernels), np.nan)
        formats = kernels.word("dtype").astype(object)
        known = np.flatnonzero([name in ARITHMETIC for name in formats])
        if len(known):
            figures = collect_figures(devices, device_index[known], formats[known])
            seconds[known] = _bound(kernels.take(known), figures)
        return seconds


def _bound(kernels: KernelTable, figures: Figures) -> Floats:
    """The larger of both times, shape [n]."""
    if kernels.family in _DESCRIBED:
        physics = _DESCRIBED[kernels.family].describe(kernels, figures)
        return np.maximum(physics.compute_seconds, physics.memory_seconds)
    work = _WORK[kernels.family](kernels)
    is_rows = kernels.family is KernelFamily.ROWS
    peak = figures.vector_flops_per_second if is_rows else figures.matrix_flops_per_second
    return np.maximum(work.flops / peak, work.traffic_bytes / figures.memory_bytes_per_second)


def load_roofline(folder: Path) -> KernelRoofline:
    """The roofline; nothing is read from ``folder``."""
    return KernelRoofline()


if __name__ == "__main__":
    print_part("kernels.roofline", "neusight", "habitat", "li2020")
