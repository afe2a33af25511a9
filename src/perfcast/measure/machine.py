"""The machine that measurements are made on."""

from __future__ import annotations

import platform
from pathlib import Path


def processor_name() -> str:
    """The model of this machine's processor; its architecture where the system does not tell the model."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def waited_seconds() -> float | None:
    """How long this thread has waited, ready, for a processor that others had; None where it is not told.

    Linux: /proc/thread-self/schedstat, time on the run queue in nanoseconds (Documentation/scheduler/
    sched-stats.rst). Time that a hypervisor took is not in it.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return None
