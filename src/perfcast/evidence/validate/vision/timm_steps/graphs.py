"""Captured steps, kept on disc: hundreds of models in hundreds of sizes take an hour to capture.

What is kept is named by what was asked and by all that it depends on: this package's code, PyTorch and timm.
"""

from __future__ import annotations

import hashlib
import pickle
import zlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import platformdirs

from perfcast.core.graph import Graph
from perfcast.core.hardware import Device
from perfcast.errors import InputError
from perfcast.files import write_bytes_atomically
from perfcast.prediction.one_device.graph import capture_graph
from perfcast.prediction.request.one_device import Request

#: Rooms whose code decides what a graph is.
_ROOMS = ("core", "torch_internals", "workload")


def kept_graph(request: Request, device: Device) -> Graph:
    """The step as captured, not yet lowered to a device; from the disc, if it was captured before.

    Raises:
        InputError: It cannot be captured.
    """
    kind = "cpu" if device.is_cpu else "accelerator"
    name = hashlib.sha256(f"{request} {kind}".encode()).hexdigest()[:32]
    place = _folder() / f"{name}.graph"
    try:
        kept = pickle.loads(zlib.decompress(place.read_bytes()))
        if isinstance(kept, Graph):
            return kept
    except (OSError, zlib.error, pickle.UnpicklingError, EOFError, AttributeError):
        pass
    graph, _ = capture_graph(request, device)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomically(place, zlib.compress(pickle.dumps(graph, protocol=5), 1))
    except (OSError, InputError):
        pass  # nothing is kept where nothing can be written
    return graph


@cache
def _folder() -> Path:
    root = Path(__file__).parents[4]  # the package
    code = hashlib.sha256()
    for path in sorted(path for room in _ROOMS for path in (root / room).rglob("*.py")):
        code.update(path.read_bytes())
    for package in ("torch", "timm"):
        code.update(_version(package).encode())
    return Path(platformdirs.user_cache_dir("perfcast")) / "captured" / code.hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
