"""What calibration found out about one device: its measured figures and one fitted line per family."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.machine.hardware import Device
from perfcast.cost.fit_quality import Quality, describe_fit, judge_fit, spread_of_fit
from perfcast.errors import CalibrationError
from perfcast.files.looking import path_exists
from perfcast.files.reading import read_json

SCHEMA = 1
DATA_DIR_VARIABLE = "PERFCAST_DATA_DIR"


@dataclass(frozen=True, slots=True)
class Line:
    """max(compute line, memory line) of one family and element type; see ``cost.linear``.

    Attributes:
        family, dtype: What it prices; ``dtype`` by label.
        latency_seconds: Time of an operation with no work.
        flops_per_second: Rate of the compute line; infinite where traffic alone decides.
        edge_m, edge_n, edge_k: Rows and columns that every product pays on top of its own.
        bytes_per_second: Bandwidth within the cache.
        cache_bytes, bytes_per_second_beyond: Traffic beyond this size moves at the second bandwidth.
        count: Measurements that the fit used.
        r_squared, mape: Quality on the measurements held out from a fit of the others: R² of the
            logarithms and mean absolute relative error.
        least_flops, most_flops, least_bytes, most_bytes: Range measured.
        largest_ratio: 95th percentile of measured / fitted over all measurements.
    """

    family: str
    dtype: str
    latency_seconds: float
    flops_per_second: float
    edge_m: float
    edge_n: float
    edge_k: float
    bytes_per_second: float
    cache_bytes: float
    bytes_per_second_beyond: float
    count: int
    r_squared: float
    mape: float
    least_flops: float
    most_flops: float
    least_bytes: float
    most_bytes: float
    largest_ratio: float

    @property
    def spread(self) -> float:
        """Factor from an estimate to the upper end of its interval: a bad fit has a wide one."""
        return spread_of_fit(self.mape, self.largest_ratio)

    @property
    def quality(self) -> Quality:
        """See ``cost.fit_quality``."""
        return judge_fit(self.mape, self.r_squared, self.spread)

    @property
    def described_quality(self) -> str:
        """What to think of the line, and why, as a part of a sentence."""
        return describe_fit(self.mape, self.r_squared, self.spread)


@dataclass(frozen=True, slots=True)
class RefusedFamily:
    """A family whose measurements make no line; its operations are priced as those of one never measured.

    Attributes:
        count: Measurements.
        reason: Why, as a part of a sentence.
    """

    family: str
    dtype: str
    count: int
    reason: str


@dataclass(frozen=True)
class DeviceProfile:
    """A device as measured.

    Attributes:
        device: 'cpu' or 'cuda'.
        processor: Its name as the system says it.
        peak_flops_per_second: Fastest product measured, by element type label.
        memory_bytes_per_second: Fastest traffic of any kernel measured, caches included: a bound.
        dram_bytes_per_second: Traffic of a copy far beyond the caches.
        launch_seconds: Shortest time of an operation.
        host_seconds: Time of the program itself per operation (interpreter, autograd) of a forward or
            backward, that a kernel measured alone does not show.
        optimizer_host_seconds: The same per operation of an optimizer that loops over parameters.
        measured_at: ISO 8601, UTC.
        refused: Families that were measured and have no line.
    """

    device: str
    processor: str
    num_threads: int
    num_cores: int
    memory_bytes: int
    cache_bytes: int
    peak_flops_per_second: Mapping[str, float]
    memory_bytes_per_second: float
    dram_bytes_per_second: float
    launch_seconds: float
    host_seconds: float
    optimizer_host_seconds: float
    torch_version: str
    measured_at: str
    lines: tuple[Line, ...]
    refused: tuple[RefusedFamily, ...] = ()

    @property
    def threads(self) -> str:
        """'1 thread', '2 threads'."""
        return "1 thread" if self.num_threads == 1 else f"{self.num_threads} threads"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; infinite rates become null."""
        data: dict[str, Any] = {"schema": SCHEMA}
        for field in fields(self):
            value = getattr(self, field.name)
            data[field.name] = dict(value) if isinstance(value, Mapping) else value
        data["lines"] = [
            {f.name: _finite_or_none(getattr(line, f.name)) for f in fields(Line)} for line in self.lines
        ]
        data["refused"] = [asdict(family) for family in self.refused]
        return data

    @classmethod
    def from_json(cls, data: Any, where: str = "profile") -> DeviceProfile:
        """Read back what ``to_json`` made.

        Raises:
            CalibrationError: A key is missing, of the wrong type or impossible; says which.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else type(data).__name__
            raise CalibrationError(
                f"{where}: expected a profile of schema {SCHEMA}, found {found}; run `perfcast calibrate`"
            )
        values = {f.name: _take({"refused": [], **data}, f.name, where) for f in fields(cls)}
        lines = values["lines"]
        if not isinstance(lines, list) or not lines:
            raise CalibrationError(
                f"{where}: 'lines' must be a list of fitted lines; run `perfcast calibrate`"
            )
        values["lines"] = tuple(_line(line, f"{where}: lines[{i}]") for i, line in enumerate(lines))
        values["refused"] = _refused(values["refused"], where)
        peaks = values["peak_flops_per_second"]
        if not isinstance(peaks, dict) or not peaks:
            raise CalibrationError(f"{where}: 'peak_flops_per_second' must map element types to rates")
        for name in ("device", "processor", "torch_version", "measured_at"):
            _check(isinstance(values[name], str), where, name, values[name])
        year = values["measured_at"][:4]
        _check(year.isascii() and year.isdecimal(), where, "measured_at", values["measured_at"])
        for label, peak in peaks.items():
            _check(label in DTYPES_BY_LABEL and _is_positive(peak), where, f"peak of {label}", peak)
        for name in _POSITIVE:
            _check(_is_positive(values[name]), where, name, values[name])
        for name in ("host_seconds", "optimizer_host_seconds"):
            _check(_is_number(values[name]) and values[name] >= 0, where, name, values[name])
        return cls(**values)


_POSITIVE = (
    "num_threads",
    "num_cores",
    "memory_bytes",
    "cache_bytes",
    "memory_bytes_per_second",
    "dram_bytes_per_second",
    "launch_seconds",
)
_MAY_BE_INFINITE = ("flops_per_second", "bytes_per_second", "bytes_per_second_beyond", "cache_bytes")


def _line(data: Any, where: str) -> Line:
    if not isinstance(data, dict):
        raise CalibrationError(f"{where}: expected an object, found {type(data).__name__}")
    values = {f.name: _take(data, f.name, where) for f in fields(Line)}
    for name in _MAY_BE_INFINITE:
        values[name] = math.inf if values[name] is None else values[name]
    for name in ("family", "dtype"):
        _check(isinstance(values[name], str), where, name, values[name])
    for name in set(values) - {"family", "dtype", "r_squared", *_MAY_BE_INFINITE}:
        _check(_is_number(values[name]) and values[name] >= 0, where, name, values[name])
    _check(_is_number(values["r_squared"]), where, "r_squared", values["r_squared"])
    for name in _MAY_BE_INFINITE:
        is_rate = isinstance(values[name], int | float) and not values[name] <= 0
        _check(is_rate and not math.isnan(values[name]), where, name, values[name])
    return Line(**values)


def _refused(data: Any, where: str) -> tuple[RefusedFamily, ...]:
    if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
        raise CalibrationError(f"{where}: 'refused' must list families; run `perfcast calibrate` again")
    for each in data:
        for name in ("family", "dtype", "reason"):
            _check(isinstance(each.get(name), str), where, f"{name} of a refused family", each.get(name))
    return tuple(
        RefusedFamily(each["family"], each["dtype"], int(_take(each, "count", where)), each["reason"])
        for each in data
    )


def _take(data: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in data:
        raise CalibrationError(f"{where}: '{name}' is missing; run `perfcast calibrate` again")
    return data[name]


def _check(is_good: bool, where: str, name: str, value: object) -> None:
    if not is_good:
        raise CalibrationError(
            f"{where}: {name} is {value!r}, which cannot be; run `perfcast calibrate` again"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0  # type: ignore[operator]


def _finite_or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isinf(value) else value


# ---- this machine's ----------------------------------------------------------------------------


def data_folder() -> Path:
    """The user's data folder, or what PERFCAST_DATA_DIR says."""
    override = os.environ.get(DATA_DIR_VARIABLE)
    if override:
        return Path(override)
    import platformdirs

    return Path(platformdirs.user_data_path("perfcast"))


def profile_path(device: str = "cpu", folder: Path | None = None) -> Path:
    """Where calibration writes the profile."""
    return (folder or data_folder()) / f"profile_{device}.json"


def load_local_profile(device: str = "cpu", folder: Path | None = None) -> DeviceProfile:
    """The profile of this machine.

    Raises:
        CalibrationError: There is none, or the file is broken.
    """
    path = profile_path(device, folder)
    if not path_exists(path):
        raise CalibrationError(f"{path}: this machine is not calibrated; run `perfcast calibrate`")
    data = read_json(path, what="the profile of `perfcast calibrate`", error=CalibrationError)
    return DeviceProfile.from_json(data, str(path))


def load_profile_of(device_name: str, folder: Path | None = None) -> DeviceProfile:
    """The profile of a device by name.

    Raises:
        CalibrationError: It was never calibrated, or the file is broken.
    """
    if device_name != "cpu" and not path_exists(profile_path(device_name, folder)):
        raise CalibrationError(
            f"'{device_name}' is not calibrated, and the linear cost model needs measurements of the device "
            f"itself; use --device cpu after `perfcast calibrate`, or another cost model"
        )
    return load_local_profile(device_name, folder)


def _vendor(profile: DeviceProfile) -> str:
    """PyTorch calls AMD's devices 'cuda' as well; its builds for them say so in their version."""
    if profile.device == "cpu":
        return "cpu"
    return "amd" if "rocm" in profile.torch_version else "nvidia"


def local_device(profile: DeviceProfile) -> Device:
    """The device as measured. Its peaks are bounds: the fastest rates that any kernel reached."""
    peaks = {DTYPES_BY_LABEL[label]: rate for label, rate in profile.peak_flops_per_second.items()}
    return Device(
        name=profile.device,
        title=f"{profile.processor} ({profile.threads})",
        vendor=_vendor(profile),
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
