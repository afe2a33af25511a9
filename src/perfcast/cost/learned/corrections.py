"""A few measurements on the user's device: the scalars that they moved, on disk.

Calibration writes them; a forecast for that device takes them up and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfcast.core.hardware import Device
from perfcast.core.kernel import KernelTable
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.learned.predictor import FittedFamily
from perfcast.cost.learned.scalars import architecture_of
from perfcast.cost.learned.store import load_family
from perfcast.cost.learned.translate import DEFAULT_FRAMEWORK
from perfcast.cost.profile import data_folder
from perfcast.errors import CalibrationError
from perfcast.files import write_text_atomically

SCHEMA = 1
Corrections = Mapping[str, Mapping[str, list[float]]]


def corrections_path(device_name: str, folder: Path | None = None) -> Path:
    """Where the corrections of a device lie: in the user's data folder."""
    return (folder or data_folder()) / f"learned-{device_name}.json"


def fit_corrections(
    measured: Mapping[str, tuple[KernelTable, np.ndarray[tuple[int], np.dtype[np.float64]]]],
    device: Device,
    weights: Path | None = None,
) -> dict[str, dict[str, list[float]]]:
    """Moved scalars by model and segment, from kernels and their seconds by model name."""
    moved: dict[str, dict[str, list[float]]] = {}
    for model, (kernels, seconds) in measured.items():
        before = load_family(model, weights)
        after = before.with_measurements(kernels, seconds, device).scalars
        moved[model] = {
            "|".join(level): after.values[device.name, level].tolist()
            for name, level in after.values
            if name == device.name
            and after.values[name, level] is not before.scalars.values.get((name, level))
        }
    return moved


def save_corrections(device: Device, moved: Corrections, path: Path) -> None:
    """Write them whole or not at all."""
    content = {"schema": SCHEMA, "device": device.name, "models": {k: dict(v) for k, v in moved.items()}}
    write_text_atomically(path, json.dumps(content, indent=1) + "\n")


def load_corrected(
    device: Device,
    framework: str = DEFAULT_FRAMEWORK,
    folder: Path | None = None,
    weights: Path | None = None,
) -> LearnedCost:
    """The learned cost model, corrected by what calibration measured on the device, if it did.

    Raises:
        CalibrationError: The file of corrections cannot be read.
    """
    path = corrections_path(device.name, folder)
    if not path.exists():
        return LearnedCost(framework=framework, folder=weights)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        models = content["models"] if content["schema"] == SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CalibrationError(f"{path} cannot be read ({error}); delete it or calibrate again") from None
    if models is None:
        raise CalibrationError(f"{path} is of another version; delete it or calibrate again")
    corrected = tuple(
        (name, _apply(load_family(name, weights), scalars, device)) for name, scalars in models.items()
    )
    return LearnedCost(framework=framework, folder=weights, corrected=corrected)


def _apply(fitted: FittedFamily, moved: Mapping[str, list[float]], device: Device) -> FittedFamily:
    values = dict(fitted.scalars.values)
    values |= {(device.name, tuple(key.split("|"))): np.array(value) for key, value in moved.items()}
    architectures = {
        **fitted.scalars.architectures,
        device.name: architecture_of(device),
    }
    return replace(fitted, scalars=replace(fitted.scalars, values=values, architectures=architectures))
