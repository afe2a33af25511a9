"""The NeuSight study's measured kernels, with the kernel names and launch grids that tell their tiles."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.catalogs.devices import load_device_entry
from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.machine.hardware import Device
from perfcast.errors import InputError
from perfcast.published.neusight.nets import row_work
from perfcast.units import MILLI

#: Sizes of each kind of table: the study's column → ours. Its products are (M × N)(N × K).
PRODUCT_SIZES = ("B", "M", "N", "K")
VECTOR_SIZES = ("B", "H")
CONVOLUTION_SIZES = (
    "B", "Input_Channel", "Output_Channel", "Kernel_Size", "Input_Size", "Stride", "Padding",
)  # fmt: skip

#: Training tables by what they hold.
TRAINING_TABLES = {
    PRODUCT_SIZES: "matmul_train",
    VECTOR_SIZES: "vector_train",
    CONVOLUTION_SIZES: "convolution",
}


@dataclass(frozen=True, eq=False)
class StudyRows:
    """Measured kernels in columns of n rows.

    Attributes:
        operation, kernel_name: Words, shape [n].
        shape: Sizes in the order of ``PRODUCT_SIZES`` (batch, m, k, n), ``VECTOR_SIZES`` (rows, length) or
            ``CONVOLUTION_SIZES``; [n, sizes].
        devices, device_index: The device of row i is ``devices[device_index[i]]``.
        num_blocks: Thread blocks of the launch.
        seconds: Mean of the runs.
    """

    operation: Objects
    kernel_name: Objects
    shape: Floats
    devices: tuple[Device, ...]
    device_index: Integers
    num_blocks: Floats
    seconds: Floats

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, index: Flags | Integers) -> StudyRows:
        """The rows that ``index`` selects."""
        return StudyRows(
            self.operation[index],
            self.kernel_name[index],
            self.shape[index],
            self.devices,
            self.device_index[index],
            self.num_blocks[index],
            self.seconds[index],
        )

    def device_names(self) -> Objects:
        """Catalog name of each row's device."""
        return np.array([device.name for device in self.devices], dtype=object)[self.device_index]

    def row_work(self) -> Floats:
        """fp32 bytes moved and flops done for each element of row kernels, shape [n, 2]."""
        work = {str(name): row_work(str(name)) for name in set(self.operation)}
        return np.array([work[str(name)] for name in self.operation], dtype=np.float64).reshape(-1, 2)


def read_study_rows(folder: Path, table: str, sizes: tuple[str, ...]) -> StudyRows:
    """Read ``TABLE.parquet`` of the study's data, which lies in ``folder`` or its ``neusight`` folder.

    Raises:
        InputError: The file is not there or lacks a column.
        UnknownNameError: A device is not in the catalog.
    """
    import polars

    from perfcast.evidence.dataset.table import read_frame

    path = _find(folder, f"{table}.parquet")
    frame = read_frame(path)
    wanted = ("op", "device", "latency_ms", "kernel_name", "grid_x", "grid_y", "grid_z", *sizes)
    if missing := sorted(set(wanted) - set(frame.columns)):
        raise InputError(f"{path}: column {', '.join(missing)} missing")

    def words(name: str) -> Objects:
        return np.array(frame[name].cast(polars.String).to_list(), dtype=object)

    def numbers(name: str) -> Floats:
        return frame[name].to_numpy().astype(np.float64)

    names, index = np.unique(words("device").astype(str), return_inverse=True)
    return StudyRows(
        operation=words("op"),
        kernel_name=words("kernel_name"),
        shape=np.stack([numbers(name) for name in sizes], axis=1),
        devices=tuple(load_device_entry(str(name)).device for name in names),
        device_index=index.astype(np.int64),
        num_blocks=numbers("grid_x") * numbers("grid_y") * numbers("grid_z"),
        seconds=numbers("latency_ms") * MILLI,
    )


def select_devices(rows: StudyRows, vendor: str, left_out: Collection[str]) -> StudyRows:
    """Rows of one vendor's devices without those left out, by catalog name.

    Raises:
        InputError: No row is left.
    """
    keep = np.array([d.vendor == vendor and d.name not in left_out for d in rows.devices], dtype=bool)
    selected = rows.take(keep[rows.device_index])
    if not len(selected):
        raise InputError(f"no measurement of a {vendor} device is left to train on")
    return selected


def _find(folder: Path, name: str) -> Path:
    for place in (folder / "neusight" / name, folder / name):
        if place.is_file():
            return place
    raise InputError(
        f"{folder}: holds neither {name} nor neusight/{name}; --data names the folder of measured tables"
    )
