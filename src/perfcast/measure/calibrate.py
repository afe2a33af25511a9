"""Calibration: time the designed grid, fit the lines, write the profile.

Every finished group of measurements is appended to a file at once, so an interrupted run loses nothing:
the next one measures what is missing. The profile is written whole or not at all.

A family whose measurements make no line is measured once more, in place of what was measured, at once and by
every later run; where it still makes none, the profile leaves it out and says why.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.cost.families import PRODUCT_FAMILIES, Features, features_of
from perfcast.cost.linear import Fits, Measurement, fit_lines, line_seconds
from perfcast.cost.profile import DeviceProfile, RefusedFamily
from perfcast.errors import CalibrationError
from perfcast.files.records import RecordFile, open_records, read_records
from perfcast.measure import store
from perfcast.measure.grid.cases import design
from perfcast.measure.host import HostCase, fit_host, host_cases
from perfcast.measure.kernels import KernelCase, operation_of_case, prepare
from perfcast.measure.machine import processor_name
from perfcast.measure.timer import Timer, time_on_cpu, time_on_cuda
from perfcast.memory_use.first_touch import MOST_HEAP_BLOCK_BYTES, first_touch_operation
from perfcast.prediction import local_memory_bytes
from perfcast.printer.streams import say
from perfcast.units import MIB

_GROUP = 12
_ROUNDS = 5
_DOUBTFUL_RATIO = 2.0
_MEASURE_REFUSED = "`perfcast calibrate` measures them again: run it when the machine is quiet"
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
        restart: Begin anew; earlier measurements stay beside, as ``.old``.
        timer, cases: Stand-ins for the clock and the grid.

    Raises:
        CalibrationError: No such device here, or measurements that cannot be fitted.
    """
    _check_device(device)
    folder = store_folder or store.data_folder()
    path = store.measurements_path(device, folder)
    grid = _all_cases(device, quick, cases)
    timer = timer or (time_on_cuda if device == "cuda" else time_on_cpu)
    with open_records(path, store.calibration_kind(device), restart=restart) as file:
        work = _Work(device, file, timer, progress)
        _measure_all(work, grid)
        profile = fit_profile(device, work.records())
        store.save_profile(profile, store.profile_path(device, folder))
    return profile


@dataclass(frozen=True)
class _Work:
    """Where measurements go and how they are made."""

    device: str
    file: RecordFile[dict[str, Any]]
    timer: Timer
    console: Console | None

    def records(self) -> list[dict[str, Any]]:
        return _of_this_setup(self.file.records)


def _measure_all(work: _Work, grid: Sequence[Case]) -> None:
    """What is missing, then what is doubtful, then families that make no line."""
    before = {record["key"] for record in work.records()}
    _measure(work, [case for case in grid if case.key not in before], "measuring")
    doubtful = _doubtful(work.records())
    _measure(work, [case for case in grid if case.key in doubtful], "again")
    refused = _refused_keys(work.records())
    _measure(work, [case for case in grid if case.key in refused], "refused", replaces=True)


def num_cases(device: str, quick: bool = False) -> int:
    """How many cases a calibration measures."""
    return len(_all_cases(device, quick, None))


def fit_profile(device: str, records: Sequence[dict[str, Any]]) -> DeviceProfile:
    """Lines and device figures from measurement records, of families that make a line.

    Raises:
        CalibrationError: None does, or no product is among them.
    """
    kernels = measurements_of(records)
    if not kernels:
        raise CalibrationError("no measurements to fit; run `perfcast calibrate`")
    fits = _fit(tuple(kernels))
    kernels = [m for m in kernels if _family_of(m) not in {(r.family, r.dtype) for r in fits.refused}]
    if not fits.lines:
        raise CalibrationError(f"no family can be fitted: {name_refused(fits.refused)}. {_MEASURE_REFUSED}")
    hosts = {record["key"]: float(record["seconds"]) for record in records if "features" not in record}
    host_seconds, update_seconds = fit_host(hosts, fits.lines) if hosts else (0.0, 0.0)
    return DeviceProfile(
        device=device,
        processor=_processor(device),
        num_threads=torch.get_num_threads(),
        num_cores=os.cpu_count() or 1,
        memory_bytes=_memory_bytes(device),
        cache_bytes=_cache_bytes(device),
        peak_flops_per_second=_peaks(kernels, fits.refused),
        memory_bytes_per_second=max(m.features.memory_traffic_bytes / m.seconds for m in kernels),
        dram_bytes_per_second=_dram_bytes_per_second(kernels),
        launch_seconds=min(m.seconds for m in kernels) + host_seconds,
        host_seconds=host_seconds,
        optimizer_host_seconds=update_seconds,
        torch_version=str(torch.__version__),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        lines=fits.lines,
        refused=fits.refused,
    )


def name_refused(refused: Sequence[RefusedFamily]) -> str:
    """'copy in fp32 (time falls with work …)', one after the other."""
    return "; ".join(f"{each.family} in {each.dtype} ({each.reason})" for each in refused)


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
    return measurements_of(_load_records(device, store_folder))


def load_seconds(device: str, store_folder: Path | None = None) -> dict[str, float]:
    """Seconds of every case measured with this setup, by its key."""
    return {record["key"]: float(record["seconds"]) for record in _load_records(device, store_folder)}


def _load_records(device: str, store_folder: Path | None) -> list[dict[str, Any]]:
    path = store.measurements_path(device, store_folder)
    return _of_this_setup(read_records(path, store.calibration_kind(device)).records)


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


def _measure(work: _Work, missing: Sequence[Case], what: str, *, replaces: bool = False) -> None:
    """Time cases group by group.

    Args:
        replaces: Whether what was measured of them before counts no more.
    """
    torch.manual_seed(0)
    extra: dict[str, Any] = {"setup": _setup(), **({"replaces": True} if replaces else {})}
    with _progress(work.console) as bar:
        task = bar.add_task(what, total=len(missing)) if bar is not None and missing else None
        for start in range(0, len(missing), _GROUP):
            group, calls = _runnable(missing[start : start + _GROUP], work.device)
            described = [_describe(case) for case in group]
            times = _time(group, calls, work.timer)
            work.file.append(
                *({**record, "seconds": s, **extra} for record, s in zip(described, times, strict=True))
            )
            del calls
            if bar is not None and task is not None:
                bar.advance(task, len(missing[start : start + _GROUP]))


def _runnable(group: Sequence[Case], device: str) -> tuple[list[Case], list[Callable[[], None]]]:
    """Cases and their calls, once run; without those that a GPU or its PyTorch cannot run.

    Raises:
        RuntimeError: The device is of no more use, as after an access to memory that is not there.
    """
    cases: list[Case] = []
    calls = []
    for case in group:
        try:
            call = case.prepare() if isinstance(case, HostCase) else prepare(case, device)
            if device == "cuda":
                torch.cuda.synchronize()
        except (RuntimeError, NotImplementedError) as error:
            if device == "cpu" or not _still_works():
                raise
            said = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            say(f"warning: {case.key} is left out, as it cannot be run here: {said}", is_error=True)
            continue
        cases.append(case)
        calls.append(call)
    return cases, calls


def _still_works() -> bool:
    try:
        torch.cuda.empty_cache()
        torch.zeros(8, device="cuda").sum().item()
    except RuntimeError:
        return False
    return True


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


def _of_this_setup(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record of each key: the fastest, since disturbances only add, from the last that replaces others.

    Measurements by another PyTorch or number of threads do not count.
    """
    setup = _setup()
    kept: dict[str, dict[str, Any]] = {}
    for record in records:
        if record.get("setup") != setup:
            continue
        known = kept.get(record["key"])
        if known is None or record.get("replaces") or record["seconds"] < known["seconds"]:
            kept[record["key"]] = record
    return list(kept.values())


@lru_cache(maxsize=1)
def _fit(measurements: tuple[Measurement, ...]) -> Fits:
    """A run asks for the fit of the same measurements several times."""
    return fit_lines(measurements)


def _family_of(measurement: Measurement) -> tuple[str, str]:
    return measurement.features.family, measurement.features.dtype.label


def _refused_keys(records: Sequence[dict[str, Any]]) -> set[str]:
    """Cases of families that make no line."""
    measurements = measurements_of(records)
    refused = {(each.family, each.dtype) for each in _fit(tuple(measurements)).refused}
    return {m.key for m in measurements if _family_of(m) in refused}


def _doubtful(records: Sequence[dict[str, Any]]) -> set[str]:
    """Cases that took twice as long as the fit of the others says: disturbed, or worth a second look."""
    measurements = measurements_of(records)
    lines = {(line.family, line.dtype): line for line in _fit(tuple(measurements)).lines}
    doubtful = set()
    for m in measurements:
        line = lines.get(_family_of(m))
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


def _peaks(kernels: Sequence[Measurement], refused: Sequence[RefusedFamily]) -> dict[str, float]:
    peaks: dict[str, float] = {}
    for m in kernels:
        label = m.features.dtype.label
        peaks[label] = max(peaks.get(label, 0.0), m.features.executed_flops / m.seconds)
    peaks = {label: rate for label, rate in peaks.items() if rate > 0}
    if "fp32" not in peaks or not any(m.features.family in PRODUCT_FAMILIES for m in kernels):
        why = f"; refused: {name_refused(refused)}. {_MEASURE_REFUSED}" if refused else ". Run it again"
        raise CalibrationError(f"no product in fp32 can be fitted, so the device's peak is unknown{why}")
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
