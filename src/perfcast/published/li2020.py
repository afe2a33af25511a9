"""Li et al.: the time of an operator is a line in its work, one line per operator and device.

time = slope · work + intercept by least squares, work being flops for products and convolutions and bytes for
row kernels, whose flops say nothing. An unseen device has no line of its own. There, slope · peak (or slope ·
bandwidth) is an inverse efficiency, and its geometric mean over the measured devices, divided by the unseen
device's peak (or bandwidth), is its slope; the intercept, which measures overheads, is dropped. Source: the
baseline "Li et al." of the NeuSight study (ASPLOS 2025). There 1 / slope of every operator, products too, is
a line in the bandwidth of the five measured devices, read off at the unseen one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats, Integers
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.figures import collect_figures
from perfcast.published.comparison import Comparison, print_comparison
from perfcast.published.kernels.graph import StudyCost, build_table_cost
from perfcast.published.kernels.study import compare_with_study
from perfcast.published.kernels.work import convolution_work, product_work, row_kernel_work
from perfcast.published.nets.store import read_record
from perfcast.published.neusight.nets import net_of


@dataclass(frozen=True)
class WorkLine:
    """seconds = slope · work + intercept of one operator on one device.

    Attributes:
        inverse_efficiency: slope · peak or slope · bandwidth of that device.
    """

    slope: float
    intercept: float
    inverse_efficiency: float


@dataclass(frozen=True)
class Li2020:
    """Lines by operator, then device."""

    lines: Mapping[str, Mapping[str, WorkLine]]
    name: str = "li2020"

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds, shape [n], at least 0; NaN for kernels that are not fp32 or have no line."""
        seconds = np.full(len(kernels), np.nan)
        known = np.flatnonzero(kernels.word("dtype") == "fp32")
        if kernels.family not in _FAMILIES or not len(known):
            return seconds
        kernels, device_index = kernels.take(known), device_index[known]
        work, operators = work_of(kernels), operators_of(kernels)
        rates = rates_of(kernels, devices, device_index)
        slope, intercept = np.full(len(known), np.nan), np.zeros(len(known))
        for operator in np.unique(operators):
            lines = self.lines.get(str(operator), {})
            for place, device in enumerate(devices):
                index = np.flatnonzero((operators == operator) & (device_index == place))
                line = lines.get(device.name)
                if line:
                    slope[index], intercept[index] = line.slope, line.intercept
                elif lines:
                    slope[index] = mean_inverse_efficiency(lines) / rates[index]
        seconds[known] = np.maximum(slope * work + intercept, 0.0)
        return seconds


_FAMILIES = (KernelFamily.PRODUCT, KernelFamily.CONVOLUTION, KernelFamily.ROWS)


def mean_inverse_efficiency(lines: Mapping[str, WorkLine]) -> float:
    """Geometric mean over devices whose line rises; NaN if none does."""
    values = [line.inverse_efficiency for line in lines.values() if line.inverse_efficiency > 0]
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def work_of(kernels: KernelTable) -> Floats:
    """Flops of products and convolutions, bytes of row kernels."""
    if kernels.family is KernelFamily.PRODUCT:
        return product_work(kernels).flops
    if kernels.family is KernelFamily.CONVOLUTION:
        return convolution_work(kernels).flops
    return row_kernel_work(kernels).traffic_bytes


def operators_of(kernels: KernelTable) -> NDArray[np.str_]:
    """Operator of each kernel: all element-wise kernels are one."""
    if kernels.family is KernelFamily.CONVOLUTION:
        return np.full(len(kernels), "convolution")
    names = {str(name): net_of(str(name)) or str(name) for name in set(kernels.word("operation"))}
    return np.array([names[str(name)] for name in kernels.word("operation")])


def rates_of(kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
    """The device's peak or bandwidth, as the work is flops or bytes."""
    figures = collect_figures(devices, device_index, kernels.word("dtype").astype(object))
    is_rows = kernels.family is KernelFamily.ROWS
    return figures.memory_bytes_per_second if is_rows else figures.matrix_flops_per_second


def load_li2020(folder: Path) -> Li2020:
    """The predictor that ``perfcast train li2020`` left in ``folder``.

    Raises:
        InputError: It is not trained, or the file is broken.
    """
    plain = read_record(folder, "li2020")["lines"]
    return Li2020({k: {d: WorkLine(**line) for d, line in of.items()} for k, of in plain.items()})


def load_li2020_cost(folder: Path) -> StudyCost:
    """The cost model on the predictor in ``folder``.

    Raises:
        InputError: It is not trained, or the file is broken.
    """
    return build_table_cost(load_li2020(folder), read_record(folder, "li2020"))


def compare(data: Path | None = None) -> Comparison:
    """With ``data`` the mean errors of whole steps that NeuSight's study printed for Li et al.

    Raises:
        InputError: The folder holds no steps of the study.
    """
    return compare_with_study("li2020", "Li et al. (2020), a line per operator", data)


if __name__ == "__main__":
    print_comparison(compare)
