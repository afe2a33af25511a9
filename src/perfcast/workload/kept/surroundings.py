"""What decides a capture beside what is asked: the code that captures, and the packages whose code is run.

Named by a digest: of this package's own files that capture, of the versions of all packages installed (a
library chooses kernels by what it finds beside it), of environment variables that those libraries read, and
of whether this machine has a GPU. A library that is run from a checkout can change without its version: then
there is no digest, and nothing is kept as a file.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from hashlib import blake2b
from importlib.machinery import PathFinder
from pathlib import Path

#: Files and folders of this package whose code decides what a graph is.
_OWN_CODE = (
    "core",
    "torch_internals",
    "workload",
    "prediction/one_device/graph.py",
    "prediction/defaults.py",
)
#: Packages whose code is run under capture.
_LIBRARIES = ("torch", "transformers", "timm")
#: What names of environment variables that they read begin with.
_VARIABLES = ("TORCH", "PYTORCH", "TRANSFORMERS_", "HF_", "TIMM_", "USE_", "CUDA_", "HIP_", "ROCR_")
_METADATA = (".dist-info", ".egg-info")
_METADATA = (".dist-info", ".egg-info")
#: Where drivers of GPUs show that there is one.
_GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def surroundings() -> str | None:
    """A digest of all of it; None where a library may change without a sign, or the code cannot be read."""
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(_VARIABLES))
    try:
        return _digest(tuple(sys.path), tuple(variables))
    except OSError:
        return None


@cache
def _digest(search_path: tuple[str, ...], variables: tuple[str, ...]) -> str | None:
    if any(_is_checkout(name) for name in _LIBRARIES):
        return None
    found = blake2b(digest_size=20)
    root = Path(__file__).parents[2]
    for place in _OWN_CODE:
        for path in sorted((root / place).rglob("*.py")) if (root / place).is_dir() else [root / place]:
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    gpus = [path for path in _GPU_FILES if Path(path).exists()]
    others = (*_installed(search_path), *variables, *gpus, platform.machine(), sys.version)
    found.update("\0".join(others).encode())
    return found.hexdigest()


def _installed(search_path: tuple[str, ...]) -> list[str]:
    """Names and versions of all packages, as their folders of metadata say, without opening them."""
    names: set[str] = set()
    for folder in filter(None, search_path):
        if Path(folder).is_dir():
            with os.scandir(folder) as entries:
                names.update(entry.name for entry in entries if entry.name.endswith(_METADATA))
    return sorted(names)


def _is_checkout(name: str) -> bool:
    """Whether a package is found without its metadata beside it; False for one that is not there at all."""
    spec = PathFinder.find_spec(name)
    if spec is None or spec.origin is None:
        return False
    return not any(Path(spec.origin).parents[1].glob(f"{name}-*.dist-info"))
