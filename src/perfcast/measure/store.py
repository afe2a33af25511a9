"""Where the measurements of a calibration lie, and what a line of them is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from perfcast.cost.profile import (
    DATA_DIR_VARIABLE,
    DeviceProfile,
    data_folder,
    load_local_profile,
    profile_path,
)
from perfcast.files.records import Kind, Plain
from perfcast.files.writing import make_folder, write_text_atomically

__all__ = [
    "calibration_kind",
    "data_folder",
    "load_local_profile",
    "measurements_path",
    "profile_path",
    "save_profile",
]


def measurements_path(device: str = "cpu", folder: Path | None = None) -> Path:
    """Where calibration appends what it measured (``files.records``)."""
    return (folder or data_folder()) / f"measurements_{device}.jsonl"


def calibration_kind(device: str) -> Kind[dict[str, Any]]:
    """The file of a device's measurements."""
    elsewhere = f"name another data folder ({DATA_DIR_VARIABLE})"
    return Kind("calibration", 1, _parse, {"device": device}, elsewhere)


def _parse(data: Plain) -> dict[str, Any]:
    """A record, believed as far as a fit needs it.

    Raises:
        ValueError: A time that cannot be.
        KeyError, TypeError: Something is missing, or is of another type.
    """
    seconds = data["seconds"]
    if isinstance(seconds, bool) or not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{data['key']}: measured {seconds!r} s")
    if not isinstance(data["key"], str) or not isinstance(data.get("features", {}), dict):
        raise TypeError(f"{data['key']!r} is no measurement")
    return dict(data)


def save_profile(profile: DeviceProfile, path: Path) -> None:
    """Write it whole or not at all."""
    make_folder(path.parent)
    write_text_atomically(path, json.dumps(profile.to_json(), indent=1, allow_nan=False) + "\n", updates=True)
