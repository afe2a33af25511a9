"""Measured operations as kernels of the learned forecaster, which a calibration's grid tells of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from perfcast.core.kernel import SIZES, WORDS
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.learned.corrections.measured import (
    MeasuredKernel,
    MeasuredKernels,
    corrections_path,
    hold_corrections,
    load_measured,
    save_measured,
)
from perfcast.cost.learned.translate import translate
from perfcast.errors import CalibrationError
from perfcast.measure.grid.cases import design
from perfcast.measure.kernels import operation_of_case


def correct_learned(
    device: Device, seconds_by_case: Mapping[str, float], kind: str, folder: Path | None = None
) -> Path:
    """Keep calibration's measurements for the learned forecaster, beside those that are kept already.

    Args:
        seconds_by_case: Seconds by the key of a case of the designed grid.
        kind: Whose grid ('cuda').

    Raises:
        CalibrationError: None of the cases is a kernel that the forecaster knows.
    """
    cases = [case for case in design(kind) if case.key in seconds_by_case]
    kernels = as_kernels(
        [case.key for case in cases],
        [operation_of_case(case) for case in cases],
        [seconds_by_case[case.key] for case in cases],
        device.vendor,
        is_cold=False,
    )
    if not kernels:
        raise CalibrationError(
            "no measured kernel that the learned forecaster knows; run `perfcast calibrate`"
        )
    path = corrections_path(device.name, folder)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with hold_corrections(path):
        measured = load_measured(path) if path.exists() else MeasuredKernels(device.name, ())
        for kernel in kernels:
            measured = measured.with_kernel(kernel, now)
        save_measured(measured, path)
    return path


def as_kernels(
    names: Sequence[str],
    operations: Sequence[Operation],
    seconds: Sequence[float],
    vendor: str,
    *,
    is_cold: bool,
) -> list[MeasuredKernel]:
    """Measured operations as PyTorch runs them, as kernels of their families.

    Those without a rule are left out. One that repeats a kernel (a recurrent layer) gives the time of one.
    """
    translation, found = translate(operations, vendor=vendor), {}
    for family, table in translation.tables.items():
        times = (
            np.asarray(seconds, dtype=np.float64)[translation.sources[family]] / translation.repeats[family]
        )
        for row, source in enumerate(translation.sources[family].tolist()):
            found[source] = MeasuredKernel(
                names[source],
                family,
                {name: float(table.size(name)[row]) for name in SIZES[family]},
                {name: str(table.word(name)[row]) for name in WORDS[family]},
                float(times[row]),
                is_cold,
            )
    return [found[source] for source in sorted(found)]
