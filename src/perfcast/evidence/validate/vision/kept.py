"""Captured steps, kept on disc: hundreds of models in hundreds of sizes take an hour to capture.

What is kept is named by what was asked and by all that it depends on: this package's code, PyTorch and timm.
"""

from __future__ import annotations

import hashlib
import pickle
import zlib
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import platformdirs

from perfcast.core.graph import Graph
from perfcast.errors import InputError
from perfcast.files import write_bytes_atomically

#: Rooms whose code decides what a graph is.
_ROOMS = ("core", "torch_internals", "workload", "evidence/validate/vision/examples/programs")


def kept_graph(asked: str, capture: Callable[[], Graph]) -> Graph:
    """The step as captured, not yet lowered to a device; from the disc, if it was captured before.

    Args:
        asked: All that it depends on beside code.

    Raises:
        InputError: It cannot be captured.
    """
    place = _folder() / f"{hashlib.sha256(asked.encode()).hexdigest()[:32]}.graph"
    try:
        kept = pickle.loads(zlib.decompress(place.read_bytes()))
        if isinstance(kept, Graph):
            return kept
    except (OSError, zlib.error, pickle.UnpicklingError, EOFError, AttributeError):
        pass
    graph = capture()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomically(place, zlib.compress(pickle.dumps(graph, protocol=5), 1))
    except (OSError, InputError):
        pass  # nothing is kept where nothing can be written
    return graph


@cache
def _folder() -> Path:
    root = Path(__file__).parents[3]  # the package
    code = hashlib.sha256()
    for path in sorted(path for room in _ROOMS for path in (root / room).rglob("*.py")):
        code.update(path.read_bytes())
    for package in ("torch", "timm", "transformers"):
        code.update(_version(package).encode())
    return Path(platformdirs.user_cache_dir("perfcast")) / "captured" / code.hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
