"""A handful of measured kernels moves the learned forecaster towards this machine's device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.hardware import Device
from perfcast.core.kernel import KernelTable, join_kernel_tables
from perfcast.core.operation import Operation
from perfcast.cost.learned.corrections import corrections_path, fit_corrections, save_corrections
from perfcast.cost.learned.store import model_names_of
from perfcast.cost.learned.translate import translate
from perfcast.errors import CalibrationError
from perfcast.measure.grid.cases import design
from perfcast.measure.kernels import operation_of_case


def correct_learned(
    device: Device,
    seconds_by_case: Mapping[str, float],
    kind: str,
    folder: Path | None = None,
    weights: Path | None = None,
) -> Path:
    """Fit and save corrections from calibration's measurements.

    Args:
        seconds_by_case: Seconds by the key of a case of the designed grid.
        kind: Whose grid ('cuda').

    Raises:
        CalibrationError: None of the cases is a kernel that the forecaster knows.
    """
    cases = [case for case in design(kind) if case.key in seconds_by_case]
    operations = [operation_of_case(case) for case in cases]
    measured = kernels_by_model(operations, [seconds_by_case[case.key] for case in cases])
    if not measured:
        raise CalibrationError(
            "no measured kernel that the learned forecaster knows; run `perfcast calibrate`"
        )
    path = corrections_path(device.name, folder)
    save_corrections(device, fit_corrections(measured, device, weights), path)
    return path


def kernels_by_model(
    operations: Sequence[Operation], seconds: Sequence[float]
) -> dict[str, tuple[KernelTable, Floats]]:
    """Measured operations as repeated kernels, by the model that prices them."""
    translation, times = translate(operations), np.array(seconds, dtype=np.float64)
    parts: defaultdict[str, list[tuple[KernelTable, Floats]]] = defaultdict(list)
    for family, table in translation.tables.items():
        each = times[translation.sources[family]] / translation.repeats[family]
        names = model_names_of(table)
        for name in sorted(set(names.tolist())):
            rows = np.flatnonzero(names == name)
            parts[name].append((replace(table.take(rows), is_cold=False), each[rows]))
    return {
        name: (join_kernel_tables([table for table, _ in some]), np.concatenate([each for _, each in some]))
        for name, some in parts.items()
    }
