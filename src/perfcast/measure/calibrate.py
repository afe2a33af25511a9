"""Calibration: time the designed grid, fit the lines, write the profile.

Every finished group of measurements is appended to a file at once, so an interrupted run loses nothing:
the next one measures what is missing. The profile is written whole or not at all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.cost.families import PRODUCT_FAMILIES, Features, features_of
from perfcast.cost.linear import Measurement, fit_lines, line_seconds
from perfcast.cost.profile import DeviceProfile
from perfcast.errors import CalibrationError
from perfcast.measure import store
from perfcast.measure.grid.cases import design
from perfcast.measure.host import HostCase, fit_host, host_cases
from perfcast.measure.kernels import KernelCase, operation_of_case, prepare
from perfcast.measure.machine import processor_name
from perfcast.measure.timer import Timer, time_on_cpu, time_on_cuda
from perfcast.memory_use.first_touch import MOST_HEAP_BLOCK_BYTES, first_touch_operation
from perfcast.prediction import local_memory_bytes
from perfcast.units import MIB

_GROUP = 12
_ROUNDS = 5
_DOUBTFUL_RATIO = 2.0
_FIRST_TOUCH_BYTES = tuple(n * MIB for n in (1, 2, 4, 8, 16, 32, 64, 128))

Case = KernelCase | HostCase


def calibrate(
    device: str = "cpu",
    store_folder: Path | None = None,
    progress: Console | None = None,
    quick: bool = False,
    restart: bool = False,
    timer: Timer | None = None,
    cases: Sequence[Case] | None = None,
) -> DeviceProfile:
    """Measure what is missing, fit, and write the profile.

    Args:
        device: 'cpu' or 'cuda'.
        store_folder: Where files go; the user's data folder by default.
        progress: Console for a progress bar; None shows nothing.
        quick: A third of the grid.
        restart: Forget earlier measurements.
        timer, cases: Stand-ins for the clock and the grid.

    Raises:
        CalibrationError: No such device here, or measurements that cannot be fitted.
    """
    _check_device(device)
    folder = store_folder or store.data_folder()
    path = store.measurements_path(device, folder)
    if restart:
        path.unlink(missing_ok=True)
    done = {record["key"] for record in _records_of_this_setup(path)}
    grid = _all_cases(device, quick, cases)
    timer = timer or (time_on_cuda if device == "cuda" else time_on_cpu)
    _measure([case for case in grid if case.key not in done], device, path, timer, progress, "measuring")
    doubtful = _doubtful(_records_of_this_setup(path))
    _measure([case for case in grid if case.key in doubtful], device, path, timer, progress, "again")
    profile = fit_profile(device, _records_of_this_setup(path))
    store.save_profile(profile, store.profile_path(device, folder))
    return profile


def fit_profile(device: str, records: Sequence[dict[str, Any]]) -> DeviceProfile:
    """Lines and device figures from measurement records.

    Raises:
        CalibrationError: They cannot be fitted, or no product is among them.
    """
    kernels = measurements_of(records)
    if not kernels:
        raise CalibrationError("no measurements to fit; run `perfcast calibrate`")
    lines = fit_lines(kernels)
    hosts = {record["key"]: float(record["seconds"]) for record in records if "features" not in record}
    host_seconds, update_seconds = fit_host(hosts, lines) if hosts else (0.0, 0.0)
    return DeviceProfile(
        device=device,
        processor=_processor(device),
        num_threads=torch.get_num_threads(),
        num_cores=os.cpu_count() or 1,
        memory_bytes=_memory_bytes(device),
        cache_bytes=_cache_bytes(device),
        peak_flops_per_second=_peaks(kernels),
        memory_bytes_per_second=max(m.features.memory_traffic_bytes / m.seconds for m in kernels),
        dram_bytes_per_second=_dram_bytes_per_second(kernels),
        launch_seconds=min(m.seconds for m in kernels) + host_seconds,
        host_seconds=host_seconds,
        optimizer_host_seconds=update_seconds,
        torch_version=str(torch.__version__),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        lines=lines,
    )


def measurements_of(records: Sequence[dict[str, Any]]) -> list[Measurement]:
    """Records of kernels, as the fit takes them."""
    result = []
    for record in records:
        if "features" in record:
            values = dict(record["features"])
            values["dtype"] = DTYPES_BY_LABEL[values["dtype"]]
            values["shape"] = tuple(values["shape"]) if values["shape"] else None
            result.append(Measurement(record["key"], Features(**values), float(record["seconds"])))
    return result


def load_measurements(device: str, store_folder: Path | None = None) -> list[Measurement]:
    """The kernels that the present profile was fitted on: one per case, of this setup."""
    return measurements_of(_records_of_this_setup(store.measurements_path(device, store_folder)))


def load_seconds(device: str, store_folder: Path | None = None) -> dict[str, float]:
    """Seconds of every case measured with this setup, by its key."""
    records = _records_of_this_setup(store.measurements_path(device, store_folder))
    return {record["key"]: float(record["seconds"]) for record in records}


# ---- measuring ---------------------------------------------------------------------------------


def _all_cases(device: str, quick: bool, cases: Sequence[Case] | None) -> list[Case]:
    if cases is not None:
        return list(cases)
    hosts: list[Case] = list(host_cases()) if device == "cpu" else []
    touches: list[Case] = [_first_touch_case(n) for n in _FIRST_TOUCH_BYTES] if device == "cpu" else []
    return [*hosts, *touches, *design(device, quick)]


def _first_touch_case(num_bytes: int) -> KernelCase:
    """Two writes into every page of the beginning of a block that is mapped anew."""
    count = num_bytes // 4
    block = max(count, 2 * MOST_HEAP_BLOCK_BYTES // 4)

    def run() -> torch.Tensor:
        return torch.empty(block)[:count:512].fill_(1.0)

    return KernelCase(f"first_touch n={num_bytes}", lambda device: (), run)


def _measure(
    missing: Sequence[Case], device: str, path: Path, timer: Timer, console: Console | None, what: str
) -> None:
    torch.manual_seed(0)
    with _progress(console) as bar:
        task = bar.add_task(what, total=len(missing)) if bar is not None else None
        for start in range(0, len(missing), _GROUP):
            group = missing[start : start + _GROUP]
            described = [_describe(case) for case in group]
            calls = [
                case.prepare() if isinstance(case, HostCase) else prepare(case, device) for case in group
            ]
            for record, seconds in zip(described, _time(group, calls, timer), strict=True):
                store.append_record(path, {**record, "seconds": seconds, "setup": _setup()})
            del calls
            if bar is not None and task is not None:
                bar.advance(task, len(group))


def _time(group: Sequence[Case], calls: Sequence[Callable[[], None]], timer: Timer) -> list[float]:
    if any(isinstance(case, HostCase) for case in group):
        return timer(calls, _ROUNDS)
    with torch.no_grad():
        return timer(calls, _ROUNDS)


def _describe(case: Case) -> dict[str, Any]:
    if isinstance(case, HostCase):
        return {"key": case.key}
    name, _, size = case.key.partition(" n=")
    operation = first_touch_operation(int(size)) if name == "first_touch" else operation_of_case(case)
    values = asdict(features_of(operation))
    values["dtype"] = operation.compute_dtype.label
    return {"key": case.key, "features": values}


def _records_of_this_setup(path: Path) -> list[dict[str, Any]]:
    """Measurements by another PyTorch or number of threads do not count; the fastest of a key does."""
    records: dict[str, dict[str, Any]] = {}
    for record in store.load_records(path):
        known = records.get(record["key"])
        if record.get("setup") == _setup() and (known is None or record["seconds"] < known["seconds"]):
            records[record["key"]] = record
    return list(records.values())


def _doubtful(records: Sequence[dict[str, Any]]) -> set[str]:
    """Cases that took twice as long as the fit of the others says: disturbed, or worth a second look."""
    measurements = measurements_of(records)
    lines = {(line.family, line.dtype): line for line in fit_lines(measurements)}
    doubtful = set()
    for m in measurements:
        line = lines.get((m.features.family, m.features.dtype.label))
        if line and m.seconds > _DOUBTFUL_RATIO * line_seconds(line, m.features)[0]:
            doubtful.add(m.key)
    return doubtful


def _setup() -> str:
    return f"torch {torch.__version__}, {torch.get_num_threads()} threads"


def _progress(console: Console | None) -> AbstractContextManager[Progress | None]:
    if console is None:
        return nullcontext()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console)


# ---- the device --------------------------------------------------------------------------------


def _check_device(device: str) -> None:
    if device not in ("cpu", "cuda"):
        raise CalibrationError(f"cannot calibrate '{device}'; it is 'cpu' or 'cuda'")
    if device == "cuda" and not torch.cuda.is_available():
        raise CalibrationError("cannot calibrate 'cuda': PyTorch sees no CUDA device here; use 'cpu'")


def _peaks(kernels: Sequence[Measurement]) -> dict[str, float]:
    peaks: dict[str, float] = {}
    for m in kernels:
        label = m.features.dtype.label
        peaks[label] = max(peaks.get(label, 0.0), m.features.executed_flops / m.seconds)
    peaks = {label: rate for label, rate in peaks.items() if rate > 0}
    if "fp32" not in peaks or not any(m.features.family in PRODUCT_FAMILIES for m in kernels):
        raise CalibrationError(
            "no product in fp32 was measured, so the device's peak is unknown; run `perfcast calibrate`"
        )
    peaks.setdefault("fp64", peaks["fp32"] / 2)
    return peaks


def _dram_bytes_per_second(kernels: Sequence[Measurement]) -> float:
    """Bandwidth of memory: that of the copies and sums with the most traffic."""
    moving = [m for m in kernels if m.features.family in ("copy", "elementwise", "update")] or list(kernels)
    most = max(m.features.memory_traffic_bytes for m in moving)
    largest = [m for m in moving if m.features.memory_traffic_bytes >= most / 2]
    rates = sorted(m.features.memory_traffic_bytes / m.seconds for m in largest)
    return max(rates[len(rates) // 2], 1.0)


def _processor(device: str) -> str:
    return str(torch.cuda.get_device_name()) if device == "cuda" else processor_name()


def _memory_bytes(device: str) -> int:
    if device == "cuda":
        return int(torch.cuda.get_device_properties(0).total_memory)
    return local_memory_bytes()


def _cache_bytes(device: str) -> int:
    if device == "cuda":
        return int(torch.cuda.get_device_properties(0).L2_cache_size)
    try:
        size = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, OSError):
        size = 0
    return size if size > 0 and math.isfinite(size) else 8 * MIB
