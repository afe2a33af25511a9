"""torchvision beside a PyTorch that its compiled operators were not built for.

A torchvision built for CUDA beside a PyTorch for processors finds its compiled library unloadable and then
fails to import: it registers shapes of operators that nobody defined ("operator torchvision::nms does not
exist"). Models whose forwards use none of them need no more than that the names exist.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

#: How torchvision names the operators whose shapes it registers (``torchvision/_meta_registrations.py``).
_NAMED = re.compile(r"""register_meta\(\s*["'](\w+)["']|register_fake\(\s*["']torchvision::(\w+)["']""")


@cache
def make_torchvision_importable() -> None:
    """Load torchvision's operators where it is installed; where they cannot be, their names are defined.

    torchvision itself is imported by whoever needs it. The names stand for nothing: a model that runs one of
    them fails as it would have without them.
    """
    folders = _folders()
    if "torchvision" not in sys.modules and folders and not _loads(folders):
        _define_operators()


def _loads(folders: Sequence[Path]) -> bool:
    """Whether its compiled operators are there, and can be loaded."""
    libraries = [path for folder in folders for path in sorted(folder.glob("_C*"))]
    try:
        for library in libraries:
            torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError):
        return False
    return bool(libraries)


@cache
def _define_operators() -> torch.library.Library:
    """torchvision's operators that are not defined, each as one tensor to one; kept alive with the result."""
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for name in sorted(_operator_names()):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor a) -> Tensor")  # type: ignore[no-untyped-call]
    return library


def _operator_names() -> set[str]:
    """As its files register them; its import is what fails."""
    texts = [path.read_text(encoding="utf-8") for folder in _folders() for path in folder.rglob("*.py")]
    return {name for text in texts for found in _NAMED.findall(text) for name in found if name}


def _folders() -> tuple[Path, ...]:
    """Where torchvision is installed, if it is."""
    spec = importlib.util.find_spec("torchvision")
    return tuple(map(Path, (spec.submodule_search_locations or []) if spec is not None else []))
