"""Measure a few kernels and keep each at once, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.corrections.measured import (
    MeasuredKernel,
    MeasuredKernels,
    check_device,
    corrections_path,
    hold_corrections,
    load_measured,
    save_measured,
)
from perfcast.cost.learned.store import load_family, model_names_of
from perfcast.errors import CalibrationError
from perfcast.files.records import set_aside
from perfcast.measure.few.bench import Bench, Timed
from perfcast.measure.few.cases import FewCase

#: A quick measurement starts no further group after this.
MOST_SECONDS = 270.0
_GROUP = 4
#: Noise of a clock and of a datasheet's rounding: a kernel that is faster than the roofline by more is none.
_TOLERANCE = 0.97
#: A fall of the load's speed by more than this is said.
_THROTTLED = 1.05

Progress = Callable[[int, int], None]  #: How many of how many are done.


@dataclass(frozen=True)
class LeftOut:
    """A kernel that has no measurement, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Run:
    """What became of a measurement.

    Attributes:
        slowdown: How much longer the load took at its slowest than at its fastest; 1 for as long.
        forgotten: Kernels of another setup that were measured earlier and count no more.
    """

    measured: MeasuredKernels
    left_out: tuple[LeftOut, ...] = ()
    slowdown: float = 1.0
    forgotten: int = 0

    @property
    def is_throttled(self) -> bool:
        """Whether clocks fell while kernels were measured."""
        return self.slowdown > _THROTTLED


def measure_kernels(
    device: Device,
    bench: Bench,
    cases: list[FewCase],
    folder: Path | None = None,
    restart: bool = False,
    progress: Progress = lambda done, total: None,
    most_seconds: float = MOST_SECONDS,
) -> Run:
    """Time what is missing of ``cases`` and keep it in the data folder.

    Raises:
        CalibrationError: Earlier measurements cannot be read.
        InputError: Another process measures the same device, or the folder cannot be written.
    """
    path = corrections_path(device.name, folder)
    with hold_corrections(path):
        if restart:
            set_aside(path)
        return _measure(device, bench, cases, path, progress, most_seconds)


def _measure(
    device: Device, bench: Bench, cases: list[FewCase], path: Path, progress: Progress, most_seconds: float
) -> Run:
    measured, forgotten = _kept(device, bench, path)
    done = {kernel.name for kernel in measured.kernels}
    missing = [case for case in cases if case.name not in done]
    progress(len(cases) - len(missing), len(cases))
    left_out: list[LeftOut] = []
    loads, began = [bench.load_seconds()] if missing else [1.0], time.monotonic()
    for start in range(0, len(missing), _GROUP):
        group = missing[start : start + _GROUP]
        if time.monotonic() - began > most_seconds:
            left_out += [LeftOut(case.name, "no time left") for case in missing[start:]]
            break
        for case, timed in zip(group, bench.time(group), strict=True):
            kernel = _kernel(case, timed, device)
            if isinstance(kernel, LeftOut):
                left_out.append(kernel)
            else:
                measured = measured.with_kernel(kernel, datetime.now(UTC).isoformat(timespec="seconds"))
        save_measured(measured, path)
        loads.append(bench.load_seconds())
        progress(len(cases) - len(missing) + start + len(group), len(cases))
    return Run(measured, tuple(left_out), max(loads) / min(loads), forgotten)


def import_kernels(
    source: Path, device: Device | None, folder: Path | None, resolve: Callable[[str], Device]
) -> tuple[Run, Device]:
    """Take over kernels that were measured elsewhere, in place of what was there.

    Args:
        device: Whose they must be; None takes the file's word.
        resolve: Name → device.

    Raises:
        CalibrationError: The file is no such file, holds no kernel, another device's or impossible times.
    """
    measured = load_measured(source)
    device = device or resolve(measured.device)
    check_device(measured, device, str(source))
    if not measured.kernels:
        raise CalibrationError(f"{source} holds no kernel")
    for kernel in measured.kernels:
        least = least_seconds(kernel, device)
        if kernel.seconds < _TOLERANCE * least:
            raise CalibrationError(f"{source}: {kernel.name}: {_too_fast(kernel.seconds, least, device)}")
    path = corrections_path(device.name, folder)
    with hold_corrections(path):
        save_measured(measured, path)
    return Run(measured), device


def least_seconds(kernel: MeasuredKernel, device: Device) -> float:
    """What a kernel takes at the device's highest clock and full bandwidth."""
    table = kernel.table()
    fitted = load_family(str(model_names_of(table)[0]))
    physics = fitted.describe(table, [device], np.zeros(1, dtype=np.int64))
    memory = physics.memory_seconds[0] if kernel.is_cold else 0.0
    return float(max(physics.compute_seconds[0] * device.clock_headroom, memory))


def _kept(device: Device, bench: Bench, path: Path) -> tuple[MeasuredKernels, int]:
    """What was measured before with this setup, and how many kernels of another do not count."""
    new = MeasuredKernels(device.name, (), bench.processor, bench.setup)
    if not path.exists():
        return new, 0
    before = load_measured(path)
    check_device(before, device, str(path))
    is_same = before.setup in ("", bench.setup) and before.processor in ("", bench.processor)
    if not is_same:
        return new, len(before.kernels)
    return replace(before, processor=bench.processor, setup=bench.setup), 0


def _kernel(case: FewCase, timed: Timed, device: Device) -> MeasuredKernel | LeftOut:
    if timed.seconds is None:
        return LeftOut(case.name, timed.reason)
    kernel = case.kernel(timed.seconds, device.vendor, is_cold=timed.is_cold)
    least = least_seconds(kernel, device)
    if timed.seconds < _TOLERANCE * least:
        return LeftOut(case.name, _too_fast(timed.seconds, least, device))
    return kernel


def _too_fast(seconds: float, least: float, device: Device) -> str:
    return (
        f"{seconds * 1e6:.3g} us is less than the {least * 1e6:.3g} us that {device.name} takes at its peak: "
        "an error of the measurement, or of the device's datasheet"
    )
