"""What a check says of its machine: versions, driver, clocks, limits of power, and who else uses it."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from perfcast.errors import CalibrationError
from perfcast.evidence.gpu_check.place import Found, Place
from perfcast.evidence.gpu_check.surroundings import told_of_environment
from perfcast.measure.machine import processor_name
from perfcast.version import perfcast_version

#: What nvidia-smi is asked of every GPU (``nvidia-smi --help-query-gpu``).
_ASKED = (
    "name,driver_version,vbios_version,pstate,memory.total,memory.used,utilization.gpu,power.limit,"
    "power.default_limit,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,clocks.applications.graphics,"
    "temperature.gpu,pcie.link.gen.current,pcie.link.width.current,persistence_mode,compute_mode,"
    "mig.mode.current,ecc.mode.current"
)
#: What every driver since 2015 answers, should one not know all of those: then it says nothing at all.
_ASKED_OF_OLD = (
    "name,driver_version,memory.total,power.limit,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem"
)
_NVIDIA = "nvidia-smi"
_CLOCKS = "clocks.sm,clocks.mem,temperature.gpu,power.draw,pstate"
_TOLD = (
    ((_NVIDIA, "--query-gpu=" + _ASKED, "--format=csv"),
     (_NVIDIA, "--query-gpu=" + _ASKED_OF_OLD, "--format=csv"), (_NVIDIA,)),
    ((_NVIDIA, "--query-compute-apps=pid,used_memory", "--format=csv"),),
    ((_NVIDIA, "topo", "-m"),),
    (("amd-smi", "static", "--json"),
     ("rocm-smi", "--showproductname", "--showdriverversion", "--showclocks", "--showmaxpower", "--json")),
    (("amd-smi", "metric", "--json"),),
)  # fmt: skip
_PACKAGES = (
    "torch", "triton", "pytorch-triton-rocm", "transformers", "timm", "torchvision", "numpy", "scipy",
    "lightgbm", "nvidia-nccl-cu12", "nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-nccl-cu13",
    "nvidia-cudnn-cu13", "nvidia-cublas",
)  # fmt: skip
_SECONDS = 20
#: More of a GPU's memory than a driver and a context take belongs to another program.
_MOST_USED_SHARE = 0.05


def check_machine(place: Place) -> Found:
    """Run a product on the device, so that a PyTorch without kernels for it is known at once; describe it.

    In a process of its own, as it opens the device: who starts parts must not, since a GPU may be set to
    serve one process at a time.
    """
    import torch

    side = torch.ones(64, 64, device=place.device)
    if float((side @ side).sum().item()) != 64.0**3:
        raise CalibrationError("a product of ones comes out wrong on this device")
    return Found((), describe_machine(place.device))


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
        "environment": told_of_environment(),
    }
    if device != "cuda":
        return found
    found["cudnn"] = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    found["devices"] = [_device(index) for index in range(torch.cuda.device_count())]
    found["warnings"] = _warnings(found["devices"])
    found["tools"] = _tools()
    return found


def _device(index: int) -> dict[str, Any]:
    import torch

    one = torch.cuda.get_device_properties(index)
    free = _free_bytes(index)
    return {
        "name": one.name,
        "memory_bytes": one.total_memory,
        "free_bytes": free,
        "num_sms": one.multi_processor_count,
        "compute_capability": f"{one.major}.{one.minor}",
        "architecture": getattr(one, "gcnArchName", None),
        "l2_bytes": getattr(one, "L2_cache_size", None),
    }


def _free_bytes(index: int) -> int | None:
    """None where the driver lets no other process look (a GPU that another has for itself alone)."""
    import torch

    try:
        return int(torch.cuda.mem_get_info(index)[0])
    except RuntimeError:
        return None


def _warnings(devices: list[dict[str, Any]]) -> list[str]:
    """What disturbs a check before it has begun."""
    found = []
    for index, one in enumerate(devices):
        if one["free_bytes"] is None:
            found.append(
                f"GPU {index} does not say how much memory is free: another process may have it alone"
            )
        elif (used := one["memory_bytes"] - one["free_bytes"]) > _MOST_USED_SHARE * one["memory_bytes"]:
            found.append(
                f"{used / one['memory_bytes']:.0%} of the memory of GPU {index} is in use before the check: "
                "another program shares it, and its work disturbs times"
            )
    return found


def clocks_now() -> str:
    """Clocks, temperature and power right after work, as the driver's tool says them; '' without one."""
    return _told((_NVIDIA, "--query-gpu=" + _CLOCKS, "--format=csv"), seconds=5).strip()


def _tools() -> dict[str, str]:
    """By what was asked: the first of each row that answers."""
    found = {}
    for row in _TOLD:
        for command in row:
            if said := _told(command):
                found[" ".join(word.partition("=")[0] for word in command[:2])] = said
                break
    return found


def _packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _told(command: tuple[str, ...], seconds: int = _SECONDS) -> str:
    """What a tool of the driver says; '' where it is not there or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL,
            errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
