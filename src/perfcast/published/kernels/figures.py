"""Device figures as the NeuSight study enters them into its nets and its tile look-up.

The study's own units are kept, since both take the numbers as they are: the look-up compares them unscaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from perfcast.catalogs.devices import load_device_entries
from perfcast.core.arrays import Floats, Integers
from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.published.comparison import print_part
from perfcast.units import GIB, GIGA, MEGA, MIB


@dataclass(frozen=True)
class StudyFigures:
    """One value per kernel, shape [n].

    Attributes:
        matrix_gigaflops, vector_gigaflops: Peaks of fp32 products and of other fp32 arithmetic, GFLOP/s; the
            same on NVIDIA devices.
        gigabytes_per_second, memory_gigabytes, l2_megabytes: As the study's device files say.
    """

    num_sms: Floats
    matrix_gigaflops: Floats
    vector_gigaflops: Floats
    memory_gigabytes: Floats
    gigabytes_per_second: Floats
    l2_megabytes: Floats

    def take(self, index: Integers) -> StudyFigures:
        """The rows that ``index`` selects."""
        return StudyFigures(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


def collect_study_figures(devices: Sequence[Device], device_index: Integers) -> StudyFigures:
    """Figures of ``devices[device_index[i]]``: the study's own, or the datasheet's for other devices."""
    rows = [_figures_of(device) for device in devices]
    names = [f.name for f in fields(StudyFigures)]
    columns = np.array(rows, dtype=np.float64).reshape(len(devices), len(names))[device_index]
    return StudyFigures(**dict(zip(names, columns.T, strict=True)))


def _figures_of(device: Device) -> tuple[float, ...]:
    entry = load_device_entries().get(device.name)
    if entry is None or not entry.study_figures:
        vector = device.vector_flops_per_second[DType.FP32]
        return (
            device.num_sms,
            device.matrix_flops_per_second.get(DType.FP32, vector) / GIGA,
            vector / GIGA,
            device.memory_bytes / GIB,
            device.memory_bytes_per_second / GIGA,
            device.l2_bytes / MIB,
        )
    study = {key: figure.si_value for key, figure in entry.study_figures.items()}
    return (
        study["multiprocessors"],
        study.get("fp32_matrix", study.get("fp32", np.nan)) / GIGA,
        study.get("fp32_vector", study.get("fp32", np.nan)) / GIGA,
        study["memory"] / GIGA,
        study["memory_bandwidth"] / GIGA,
        study["l2"] / MEGA,
    )


if __name__ == "__main__":
    print_part("kernels.figures", "neusight", "habitat", "li2020")
