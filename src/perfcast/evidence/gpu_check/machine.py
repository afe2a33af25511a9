"""What a check says of its machine: versions, driver, clocks, limits of power."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from perfcast.measure.machine import processor_name
from perfcast.version import perfcast_version

#: What nvidia-smi is asked of every GPU (``nvidia-smi --help-query-gpu``).
_ASKED = (
    "name,driver_version,vbios_version,pstate,memory.total,power.limit,power.default_limit,clocks.sm,"
    "clocks.max.sm,clocks.mem,clocks.max.mem,temperature.gpu,pcie.link.gen.current,pcie.link.width.current,"
    "persistence_mode,compute_mode,mig.mode.current,ecc.mode.current"
)
_TOLD = (
    ("nvidia-smi", "--query-gpu=" + _ASKED, "--format=csv"),
    ("nvidia-smi", "topo", "-m"),
    ("amd-smi", "static", "--json"),
    ("rocm-smi", "--showproductname", "--showdriverversion", "--showclocks", "--showmaxpower", "--json"),
)
_PACKAGES = ("torch", "triton", "transformers", "numpy", "nvidia-nccl-cu12", "nvidia-cudnn-cu12")
_SECONDS = 20


def describe_machine(device: str) -> dict[str, Any]:
    """Plain data; what a tool that is not there would say is left out."""
    import torch

    found: dict[str, Any] = {
        "perfcast": perfcast_version(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": processor_name(),
        "num_cores": os.cpu_count(),
        "num_threads": torch.get_num_threads(),
        "packages": _packages(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "allocator_settings": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
    }
    if device != "cuda":
        return found
    devices = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    found["devices"] = [
        {
            "name": one.name,
            "memory_bytes": one.total_memory,
            "num_sms": one.multi_processor_count,
            "compute_capability": f"{one.major}.{one.minor}",
        }
        for one in devices
    ]
    found["tools"] = {" ".join(command[:2]): said for command in _TOLD if (said := _told(command))}
    return found


def _packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _told(command: tuple[str, ...]) -> str:
    """What a tool of the driver says; '' where it is not there or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
