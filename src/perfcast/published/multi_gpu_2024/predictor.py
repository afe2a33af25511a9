"""Lin et al.'s kernel models as a predictor of fp32 kernels: regressors, and constants for the rest.

A device on the same die as a measured one (a V100 on another board) takes that one's net, its times in
inverse proportion to the datasheets' fp32 peaks; the study trains anew on every device. Any other device has
no model of products, convolutions and layer norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.arrays import Floats, Integers
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.published.comparison import print_part
from perfcast.published.kernels.roofline import KernelRoofline
from perfcast.published.multi_gpu_2024.memory_bound import MEASURED, work_seconds
from perfcast.published.multi_gpu_2024.regressors import (
    FAMILIES,
    KERNEL_FAMILIES,
    Regressor,
    features_of_kernels,
    load_regressor,
    part_name,
)
from perfcast.published.nets.store import read_record

NAME = "lin2024"


@dataclass(frozen=True, eq=False)
class Lin2024:
    """Nets by family, then device."""

    nets: Mapping[str, Mapping[str, Regressor]]
    name: str = NAME

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds, shape [n]; NaN for kernels that are not fp32 or unknown, or of a device without a net."""
        seconds = np.full(len(kernels), np.nan)
        is_known = kernels.word("dtype") == "fp32"
        if kernels.family not in KERNEL_FAMILIES:
            return seconds
        for place, device in enumerate(devices):
            mine = np.flatnonzero(is_known & (device_index == place))
            if len(mine):
                seconds[mine] = self._on_device(kernels.take(mine), device)
        return seconds

    def _on_device(self, kernels: KernelTable, device: Device) -> Floats:
        if kernels.family is not KernelFamily.ROWS:
            return self._by_net(KERNEL_FAMILIES[kernels.family], kernels, device)
        seconds = np.full(len(kernels), np.nan)
        names = kernels.word("operation").astype(str)
        for name in np.unique(names).tolist():
            index = np.flatnonzero(names == name)
            part = kernels.take(index)
            if name in FAMILIES["layer_norm"]:
                seconds[index] = self._by_net("layer_norm", part, device)
            elif name in MEASURED:
                elements = part.size("num_rows") * part.size("row_length")
                seconds[index] = work_seconds(MEASURED[name], elements, device)
        return seconds

    def _by_net(self, family: str, kernels: KernelTable, device: Device) -> Floats:
        found = self.net_for(family, device)
        if found is None:
            return np.full(len(kernels), np.nan)
        net, slower = found
        return slower * net.predict(features_of_kernels(family, kernels))

    def net_for(self, family: str, device: Device) -> tuple[Regressor, float] | None:
        """A family's net for a device, and how much longer its times are there; None without one."""
        name = self.name_for(family, device)
        if name is None:
            return None
        peaks = [one.vector_flops_per_second[DType.FP32] for one in (load_device(name), device)]
        return self.nets[family][name], 1.0 if name == device.name else peaks[0] / peaks[1]

    def name_for(self, family: str, device: Device) -> str | None:
        """The measured device whose net a device takes."""
        names = list(self.nets.get(family, {}))
        alike = (name for name in names if load_device(name).die == device.die)
        return device.name if device.name in names else next(alike, None)


@dataclass(frozen=True, eq=False)
class WithoutLaunch:
    """The same for kernels among others in a step, where no kernel waits for its own launch.

    Measured alone, a small kernel takes what the host takes to launch it; there the regressor says no more
    than that. From twice this time on its answer counts, at this time the roofline's, between them their mean
    weighed by the distance.

    Attributes:
        floors: Least measured seconds by net ('product.v100-pcie-32gb').
    """

    predictor: Lin2024
    floors: Mapping[str, float]

    @property
    def name(self) -> str:
        """Of the predictor."""
        return self.predictor.name

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds, shape [n], as ``Lin2024.predict``."""
        alone = self.predictor.predict(kernels, devices, device_index)
        bound = KernelRoofline().predict(kernels, devices, device_index)
        floor = np.array([self._floor(kernels.family, device) for device in devices])[device_index]
        if kernels.family is KernelFamily.ROWS:
            floor = np.where(
                np.isin(kernels.word("operation").astype(str), FAMILIES["layer_norm"]), floor, 0.0
            )
        share = np.clip(alone / np.maximum(floor, _TINY) - 1, 0.0, 1.0)
        seconds: Floats = np.where(floor > 0, share * alone + (1 - share) * np.minimum(bound, alone), alone)
        return seconds

    def _floor(self, family: KernelFamily, device: Device) -> float:
        named = KERNEL_FAMILIES.get(family, "")
        found = self.predictor.name_for(named, device)
        return self.floors.get(part_name(named, found), 0.0) if found else 0.0


_TINY = float(np.finfo(np.float64).tiny)


def load_lin2024(folder: Path) -> Lin2024:
    """The predictor that ``perfcast train lin2024`` left in ``folder``.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    parts = read_record(folder, NAME)["nets"]
    return Lin2024(
        {
            family: {
                name.removeprefix(f"{family}."): load_regressor(folder, name)
                for name in parts
                if name == part_name(family, name.removeprefix(f"{family}."))
            }
            for family in FAMILIES
        }
    )


if __name__ == "__main__":
    print_part("multi_gpu_2024.predictor", "multi_gpu_2024")
