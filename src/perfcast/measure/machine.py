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
