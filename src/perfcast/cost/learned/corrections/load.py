"""The learned cost model as measurements on the user's device have moved it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.corrections.covariance import load_covariance
from perfcast.cost.learned.corrections.evidence import Evidence, weigh_measurements
from perfcast.cost.learned.corrections.measured import (
    MeasuredKernels,
    check_device,
    corrections_path,
    load_measured,
)
from perfcast.cost.learned.corrections.traits import Traits, describe_traits, join_traits
from perfcast.cost.learned.model import LearnedCost, Moved
from perfcast.cost.learned.predictor import FittedFamily
from perfcast.cost.learned.store import load_family
from perfcast.cost.learned.streams import stream_kernels
from perfcast.cost.learned.translate import DEFAULT_FRAMEWORK


def load_corrected(
    device: Device,
    framework: str = DEFAULT_FRAMEWORK,
    folder: Path | None = None,
    weights: Path | None = None,
) -> LearnedCost:
    """The learned cost model, moved by the kernels that were measured on the device, if any were.

    Raises:
        CalibrationError: The file of measured kernels cannot be read.
    """
    path = corrections_path(device.name, folder)
    if not path.exists():
        return LearnedCost(framework=framework, folder=weights)
    measured = load_measured(path)
    check_device(measured, device, str(path))
    return correct(LearnedCost(framework=framework, folder=weights), measured, device)


def correct(plain: LearnedCost, measured: MeasuredKernels, device: Device) -> LearnedCost:
    """``plain`` as measured kernels move it; none leave it as it is.

    Raises:
        CalibrationError: The kernels are another device's.
    """
    check_device(measured, device, "what was measured")
    if not measured.kernels:
        return plain
    moved = Moved(device.name, weigh(measured, device, plain.folder), measured.describe())
    return LearnedCost(framework=plain.framework, folder=plain.folder, moved=moved)


def weigh(measured: MeasuredKernels, device: Device, weights: Path | None = None) -> Evidence:
    """What measured kernels say of those that were not."""
    estimates, traits = estimate_measured(measured, device, weights)
    seconds = np.array([kernel.seconds for kernel in measured.kernels], dtype=np.float64)
    return weigh_measurements(traits, np.log(seconds / estimates), load_covariance())


def estimate_measured(
    measured: MeasuredKernels, device: Device, weights: Path | None = None
) -> tuple[Floats, Traits]:
    """Forecast before any measurement and traits of each measured kernel, in the order of ``measured``."""
    parts: list[tuple[Traits, Floats, Sequence[int]]] = []
    for model, (kernels, _, places) in measured.by_model().items():
        fitted = load_family(model.partition(" ")[0], weights)
        index = np.zeros(len(kernels), dtype=np.int64)
        estimates = fitted.estimate(kernels, [device], index)
        physics = fitted.describe(kernels, [device], index)
        traits = describe_traits(fitted, kernels, device, estimates, physics)
        parts.append((traits, _by_law(estimates.seconds, kernels, device, fitted), places))
    order = np.argsort(np.concatenate([places for _, _, places in parts]))
    seconds = np.concatenate([seconds for _, seconds, _ in parts])[order]
    return np.asarray(seconds), join_traits([traits for traits, _, _ in parts]).take(order)


def _by_law(seconds: Floats, kernels: KernelTable, device: Device, fitted: FittedFamily) -> Floats:
    """Of kernels over rows, what ``LearnedCost`` says in place of the family where nobody measured any."""
    if kernels.family is not KernelFamily.ROWS or device.name in fitted.scalars.architectures:
        return seconds
    return stream_kernels(seconds, kernels, device)
