"""What the machine tells while a replay runs: processor, memory bandwidth, power. NaN where it does not."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from perfcast.units import MICRO, MILLI

_NAN = float("nan")
_POWER_FOLDER = Path("/sys/class/powercap")
_STATISTICS = Path("/proc/stat")
#: Between two readings of a device.
_SAMPLING_SECONDS = 0.05


@dataclass(frozen=True)
class Utilisation:
    """Shares from 0 to 1, watts; NaN: the machine does not tell.

    ``process`` is how many processors the replay kept busy, ``processors`` the share of all processors
    that anything kept busy, ``device`` and ``device_memory`` the shares of time in which a device computed
    and in which its memory was read or written.
    """

    process: float = _NAN
    processors: float = _NAN
    device: float = _NAN
    device_memory: float = _NAN
    processor_watts: float = _NAN
    device_watts: float = _NAN


class Watch:
    """Counts from ``start`` to ``stop``; on processors nothing runs in between."""

    def __init__(self, device: int | None = None) -> None:
        self._device = _Device.find(device) if device is not None else None
        self._started: tuple[float, float, tuple[float, float], float] | None = None

    def start(self) -> None:
        """Read all counters, and begin to read the device's."""
        self._started = (perf_counter(), process_time(), _processor_times(), _package_joules())
        if self._device is not None:
            self._device.start()

    def stop(self) -> Utilisation:
        """What happened since ``start``."""
        assert self._started is not None
        wall, own, (busy, total), joules = self._started
        seconds = perf_counter() - wall
        busy_now, total_now = _processor_times()
        device = self._device.stop() if self._device is not None else (_NAN, _NAN, _NAN)
        return Utilisation(
            process=(process_time() - own) / seconds if seconds > 0 else _NAN,
            processors=(busy_now - busy) / (total_now - total) if total_now > total else _NAN,
            device=device[0],
            device_memory=device[1],
            processor_watts=_power(joules, _package_joules(), seconds),
            device_watts=device[2],
        )


def _power(before: float, after: float, seconds: float) -> float:
    """Watts; NaN where the counter is not there or began again."""
    return (after - before) / seconds if after > before and seconds > 0 else _NAN


def _processor_times() -> tuple[float, float]:
    """Ticks in which processors were busy, and all ticks (Linux)."""
    try:
        words = _STATISTICS.read_text(encoding="ascii").splitlines()[0].split()
        ticks = [float(word) for word in words[1:9]]
    except (OSError, IndexError, ValueError):
        return _NAN, _NAN
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _package_joules() -> float:
    """Energy that processor packages have used (RAPL by the kernel's powercap); NaN where not readable."""
    total = 0.0
    try:
        zones = [zone for zone in _POWER_FOLDER.glob("intel-rapl:*") if zone.name.count(":") == 1]
        for zone in zones:
            total += float((zone / "energy_uj").read_text(encoding="ascii")) * MICRO
    except (OSError, ValueError):
        return _NAN
    return total if zones else _NAN


class _Device:
    """An NVIDIA device read by NVML from a thread of its own."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle
        self._samples: list[tuple[float, float, float]] = []
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def find(cls, index: int) -> _Device | None:
        """The device, where NVML and its Python module are there."""
        try:
            library = import_module("pynvml")
            library.nvmlInit()
            return cls(library, library.nvmlDeviceGetHandleByIndex(index))
        except Exception:  # the module is optional, and so is the library that it looks for
            return None

    def start(self) -> None:
        self._samples = []
        self._is_over.clear()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[float, float, float]:
        """Means of computing, of memory (shares) and of power (watts)."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        if not self._samples:
            return _NAN, _NAN, _NAN
        columns = list(zip(*self._samples, strict=True))
        means = [math.fsum(column) / len(column) for column in columns]
        return means[0], means[1], means[2]

    def _read(self) -> None:
        while not self._is_over.wait(_SAMPLING_SECONDS):
            try:
                rates = self._library.nvmlDeviceGetUtilizationRates(self._handle)
                milliwatts = self._library.nvmlDeviceGetPowerUsage(self._handle)
            except Exception:  # a device that does not tell is left out
                return
            self._samples.append((rates.gpu / 100, rates.memory / 100, milliwatts * MILLI))
