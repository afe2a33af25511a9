"""Habitat (Yu, Gao, Golikov, Pekhimenko, USENIX ATC 2021) as a predictor of fp32 kernels.

Kernels that are alike on every device (element-wise, softmax, layer norm) are scaled from a device on which
they were measured (``wave_scaling``); kernels that vary (linear, batched products, convolutions) are priced
by nets (``direct_nets``). As in the NeuSight study, the device scaled from is a V100, and a P100 for the V100
itself. Habitat measures the very kernel on that device; here the measured kernel of the nearest sizes stands
for it, its time taken in proportion to the bytes moved.

The study did less: it scaled by bandwidth alone, found a kernel only if its sizes were measured to the digit,
and took elements / bandwidth (not bytes) for all others; its nets answer seconds, these milliseconds. A
step's operations that are neither are bytes / bandwidth in both (``kernels.graph``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfcast.catalogs.devices import load_device
from perfcast.core.arrays import Floats, Integers
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.published.comparison import print_part
from perfcast.published.habitat.wave_scaling import Machine, scale_waves
from perfcast.published.kernels.figures import collect_study_figures
from perfcast.published.kernels.graph import StudyCost, build_table_cost
from perfcast.published.kernels.work import row_kernel_work
from perfcast.published.nets.archive import Arrays
from perfcast.published.nets.direct import DirectNet, load_direct_net, sizes_seen
from perfcast.published.nets.store import read_part, read_record

NETS = ("linear", "bmm", "convolution")
SOURCES = "sources"

#: Devices to scale from, in order of preference; the first that was measured and is not the target.
SOURCE_ORDER = ("v100-pcie-32gb", "p100-pcie", "t4", "p4", "a100-pcie-40gb", "mi210", "mi100")


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Row kernels measured on the devices to scale from; shape [t] each, ``shape`` [t, 2]."""

    operation: NDArray[np.str_]
    device: NDArray[np.str_]
    shape: Floats
    traffic_bytes: Floats
    seconds: Floats

    def source_for(self, target: str) -> str | None:
        """The device to scale from to ``target``."""
        return next((n for n in SOURCE_ORDER if n != target and (self.device == n).any()), None)

    def nearest_seconds(self, source: str, operation: str, shape: Floats, traffic_bytes: Floats) -> Floats:
        """Time on ``source``: that of the nearest sizes (by logarithm), per byte; NaN if never measured."""
        from scipy.spatial import cKDTree

        rows = np.flatnonzero((self.device == source) & (self.operation == operation))
        if not len(rows):
            return np.full(len(shape), np.nan)
        _, nearest = cKDTree(np.log(self.shape[rows])).query(np.log(shape))
        seconds_per_byte = self.seconds[rows[nearest]] / self.traffic_bytes[rows[nearest]]
        seconds: Floats = seconds_per_byte * traffic_bytes
        return seconds


@dataclass(frozen=True, eq=False)
class Habitat:
    """Nets and measured row kernels."""

    nets: Mapping[str, DirectNet]
    measured: MeasuredRows
    name: str = "habitat"

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds, shape [n]; NaN for kernels that are not fp32 or that were never measured."""
        seconds = np.full(len(kernels), np.nan)
        known = np.flatnonzero(kernels.word("dtype") == "fp32")
        if not len(known):
            return seconds
        if kernels.family in (KernelFamily.PRODUCT, KernelFamily.CONVOLUTION):
            seconds[known] = self._by_nets(kernels.take(known), devices, device_index[known])
        elif kernels.family is KernelFamily.ROWS:
            seconds[known] = self._by_scaling(kernels.take(known), devices, device_index[known])
        return seconds

    def _by_nets(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        names = net_names(kernels)
        shape, figures = sizes_seen(kernels), collect_study_figures(devices, device_index)
        seconds = np.full(len(kernels), np.nan)
        for name, net in self.nets.items():
            index = np.flatnonzero(names == name)
            if len(index):
                seconds[index] = net.predict(shape[index], figures.take(index))
        return seconds

    def _by_scaling(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        work = row_kernel_work(kernels)
        shape = np.stack([kernels.size("num_rows"), kernels.size("row_length")], axis=1)
        operations = kernels.word("operation").astype(str)
        seconds = np.full(len(kernels), np.nan)
        for place, device in enumerate(devices):
            source = self.measured.source_for(device.name)
            for operation in np.unique(operations[device_index == place]) if source else ():
                index = np.flatnonzero((device_index == place) & (operations == operation))
                measured = self.measured.nearest_seconds(
                    source or "", str(operation), shape[index], work.traffic_bytes[index]
                )
                intensity = work.flops[index] / work.traffic_bytes[index]
                origin = machine_of(load_device(source or ""))
                seconds[index] = scale_waves(measured, intensity, origin, machine_of(device))
        return seconds


def net_names(kernels: KernelTable) -> NDArray[np.str_]:
    """The net of each product or convolution."""
    if kernels.family is KernelFamily.CONVOLUTION:
        return np.full(len(kernels), "convolution")
    is_batched = (kernels.word("operation") == "bmm") | (kernels.size("batch") > 1)
    return np.where(is_batched, "bmm", "linear")


def machine_of(device: Device) -> Machine:
    """What wave scaling asks of a device."""
    return Machine(
        memory_bytes_per_second=device.memory_bytes_per_second,
        clock_hertz=device.clock_hertz,
        num_sms=device.num_sms,
        peak_flops_per_second=device.vector_flops_per_second[DType.FP32],
    )


def measured_rows(arrays: Arrays) -> MeasuredRows:
    """What a training put away of measured row kernels."""
    return MeasuredRows(
        arrays["operation"], arrays["device"], arrays["shape"], arrays["traffic_bytes"], arrays["seconds"]
    )


def load_habitat(folder: Path) -> Habitat:
    """The predictor that ``perfcast train habitat`` left in ``folder``.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    record = read_record(folder, "habitat")
    measured = measured_rows(read_part(folder, SOURCES).arrays)
    return Habitat({name: load_direct_net(folder, name) for name in record["nets"]}, measured)


def load_habitat_cost(folder: Path) -> StudyCost:
    """The cost model on the predictor in ``folder``.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    return build_table_cost(load_habitat(folder), read_record(folder, "habitat"))


if __name__ == "__main__":
    print_part("habitat.predictor", "habitat")
