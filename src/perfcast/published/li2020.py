"""Li et al.: the time of an operator is a line in its work, one line per operator and device.

time = slope · work + intercept by least squares, work being flops for products and convolutions and bytes for
row kernels, whose flops say nothing. An unseen device has no line of its own. There, slope · peak (or slope ·
bandwidth) is an inverse efficiency, and its geometric mean over the measured devices, divided by the unseen
device's peak (or bandwidth), is its slope; the intercept, which measures overheads, is dropped. Source: the
baseline "Li et al." of the NeuSight study (ASPLOS 2025), which carries lines over by bandwidth as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats, Integers
from perfcast.core.hardware import Device
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.cost.learned.figures import collect_figures
from perfcast.published.direct_nets import SIZES_SEEN
from perfcast.published.kernel_work import convolution_work, product_work, row_kernel_work
from perfcast.published.neusight_nets import net_of, row_work
from perfcast.published.store import read_record, write_predictor
from perfcast.published.study_rows import (
    CONVOLUTION_SIZES,
    TRAINING_TABLES,
    StudyRows,
    read_study_rows,
    select_devices,
)

if TYPE_CHECKING:
    from perfcast.train.loop import Progress


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


def fit_lines(
    kernels: KernelTable, seconds: Floats, devices: Sequence[Device], device_index: Integers
) -> dict[str, dict[str, WorkLine]]:
    """One line per operator and device, by least squares."""
    work, operators = work_of(kernels), operators_of(kernels)
    rates = rates_of(kernels, devices, device_index)
    lines: dict[str, dict[str, WorkLine]] = {}
    for operator in np.unique(operators):
        for place, device in enumerate(devices):
            index = np.flatnonzero((operators == operator) & (device_index == place))
            if len(index) > 1:
                slope, intercept = np.polyfit(work[index], seconds[index], 1)
                line = WorkLine(float(slope), float(intercept), float(slope * rates[index[0]]))
                lines.setdefault(str(operator), {})[device.name] = line
    return lines


def train_li2020(
    data: Path,
    folder: Path,
    *,
    seed: int,
    vendor: str,
    left_out: Collection[str],
    num_epochs: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Fit all lines into ``folder``; a fit has neither a seed nor epochs, so they make no difference.

    Raises:
        InputError: A table is missing or no row is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, dict[str, WorkLine]] = {}
    for sizes, table in TRAINING_TABLES.items():
        rows = read_study_rows(data, table, sizes)
        if sizes == CONVOLUTION_SIZES and all(device.vendor != vendor for device in rows.devices):
            continue  # convolutions were not measured on AMD's
        rows = select_devices(rows, vendor, left_out)
        lines |= fit_lines(table_of(rows, len(sizes)), rows.seconds, rows.devices, rows.device_index)
    plain = {k: {d: vars(line) for d, line in of.items()} for k, of in lines.items()}
    record = {"vendor": vendor, "left_out": sorted(left_out), "lines": plain, "nets": {}}
    write_predictor(folder, "li2020", {}, record)
    return record


_WORDS = {"dtype": "fp32", "framework": "pytorch"}


def table_of(rows: StudyRows, num_sizes: int) -> KernelTable:
    """The study's rows as a table of fp32 kernels; the number of sizes tells the family."""
    words = {name: np.full(len(rows), word, dtype=object) for name, word in _WORDS.items()}
    words["operation"] = rows.operation
    if num_sizes == 2:
        each = np.array([row_work(str(name))[0] for name in rows.operation], dtype=np.float64)
        elements = rows.shape.prod(axis=1)
        columns = {
            "num_rows": rows.shape[:, 0],
            "row_length": rows.shape[:, 1],
            "read_bytes": (each - 4.0) * elements,
            "written_bytes": 4.0 * elements,
        }
        return KernelTable(KernelFamily.ROWS, {**columns, **words})
    family = KernelFamily.PRODUCT if num_sizes == 4 else KernelFamily.CONVOLUTION
    sizes = dict(zip(SIZES_SEEN[family], rows.shape.T, strict=True))
    extra = {"layout": ""} if family is KernelFamily.PRODUCT else {"groups": 1.0}
    return build_kernel_table(family, len(rows), **sizes, **extra, **words)


def load_li2020(folder: Path) -> Li2020:
    """The predictor that ``perfcast train li2020`` left in ``folder``.

    Raises:
        InputError: It is not trained, or the file is broken.
    """
    plain = read_record(folder, "li2020")["lines"]
    return Li2020({k: {d: WorkLine(**line) for d, line in of.items()} for k, of in plain.items()})
