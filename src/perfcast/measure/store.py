"""Where measurements and the profile of this machine lie, and the device that a profile describes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import platformdirs

from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.hardware import Device
from perfcast.cost.profile import DeviceProfile
from perfcast.errors import CalibrationError

DATA_DIR_VARIABLE = "PERFCAST_DATA_DIR"


def data_folder() -> Path:
    """The user's data folder, or what PERFCAST_DATA_DIR says."""
    override = os.environ.get(DATA_DIR_VARIABLE)
    return Path(override) if override else Path(platformdirs.user_data_path("perfcast"))


def profile_path(device: str = "cpu", folder: Path | None = None) -> Path:
    """Where calibration writes the profile."""
    return (folder or data_folder()) / f"profile_{device}.json"


def measurements_path(device: str = "cpu", folder: Path | None = None) -> Path:
    """Where calibration appends what it measured, one JSON object a line."""
    return (folder or data_folder()) / f"measurements_{device}.jsonl"


def load_local_profile(device: str = "cpu", folder: Path | None = None) -> DeviceProfile:
    """The profile of this machine.

    Raises:
        CalibrationError: There is none, or the file is broken.
    """
    path = profile_path(device, folder)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CalibrationError(f"{path}: this machine is not calibrated; run `perfcast calibrate`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(f"{path}: cannot be read ({error}); run `perfcast calibrate`") from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise CalibrationError(f"{path}: not valid JSON ({error}); run `perfcast calibrate`") from None
    return DeviceProfile.from_json(data, str(path))


def save_profile(profile: DeviceProfile, path: Path) -> None:
    """Write it whole or not at all."""
    write_atomically(path, json.dumps(profile.to_json(), indent=1, allow_nan=False) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Into a file beside it, then renamed over it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def append_record(path: Path, record: dict[str, Any]) -> None:
    """One JSON line, flushed, so that an interrupted run has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
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


def local_device(profile: DeviceProfile) -> Device:
    """The device as measured. Its peaks are bounds: the fastest rates that any kernel reached."""
    peaks = {DTYPES_BY_LABEL[label]: rate for label, rate in profile.peak_flops_per_second.items()}
    return Device(
        name=profile.device,
        title=f"{profile.processor} ({profile.num_threads} threads)",
        vendor="cpu" if profile.device == "cpu" else "nvidia",
        architecture=profile.processor,
        die=profile.processor,
        year=int(profile.measured_at[:4]),
        memory_bytes=profile.memory_bytes,
        memory_bytes_per_second=profile.memory_bytes_per_second,
        num_sms=profile.num_cores,
        clock_hertz=0.0,
        l2_bytes=profile.cache_bytes,
        link_kind="none",
        link_bytes_per_second=0.0,
        power_watts=None,
        launch_seconds=profile.launch_seconds,
        vector_flops_per_second=peaks,
        matrix_flops_per_second={},
        note=f"as measured on {profile.measured_at} with PyTorch {profile.torch_version}",
    )
