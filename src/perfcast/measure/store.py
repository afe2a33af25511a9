"""Where measurements lie, and how files are written so that an interruption loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perfcast.cost.profile import DeviceProfile, data_folder, load_local_profile, profile_path
from perfcast.errors import CalibrationError
from perfcast.files.writing import make_folder, write_text_atomically

__all__ = [
    "append_record",
    "data_folder",
    "load_local_profile",
    "load_records",
    "measurements_path",
    "profile_path",
    "save_profile",
]


def measurements_path(device: str = "cpu", folder: Path | None = None) -> Path:
    """Where calibration appends what it measured, one JSON object a line."""
    return (folder or data_folder()) / f"measurements_{device}.jsonl"


def save_profile(profile: DeviceProfile, path: Path) -> None:
    """Write it whole or not at all."""
    make_folder(path.parent)
    write_text_atomically(path, json.dumps(profile.to_json(), indent=1, allow_nan=False) + "\n", updates=True)


def append_record(path: Path, record: dict[str, Any]) -> None:
    """One JSON line, flushed, so that an interrupted run has it."""
    make_folder(path.parent)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, allow_nan=False) + "\n")


def load_records(path: Path) -> list[dict[str, Any]]:
    """Lines written so far; a last line cut off in the middle is ignored.

    Raises:
        CalibrationError: Another line is not JSON.
    """
    if not path.exists():
        return []
    records = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines):
                break
            raise CalibrationError(
                f"{path}:{number}: not valid JSON ({error}); run `perfcast calibrate --restart`"
            ) from None
    return records
