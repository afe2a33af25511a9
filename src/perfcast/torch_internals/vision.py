"""torchvision beside a PyTorch that its compiled operators were not built for.

A torchvision built for CUDA beside a PyTorch for processors finds its compiled library unloadable and then
fails to import: it registers shapes of operators that nobody defined ("operator torchvision::nms does not
exist"). Models whose forwards use none of them need no more than that the names exist.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from functools import cache
from pathlib import Path

import torch

#: How torchvision names the operators whose shapes it registers (``torchvision/_meta_registrations.py``).
_NAMED = re.compile(r"""register_meta\(\s*["'](\w+)["']|register_fake\(\s*["']torchvision::(\w+)["']""")
_FAULT = "operator torchvision::"


@cache
def make_torchvision_importable() -> None:
    """Import torchvision if it is installed; where its operators are missing, their names are defined first.

    The names stand for nothing: a model that runs one of them fails as it would have without them.
    """
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if _FAULT not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _define_operators()
        importlib.import_module("torchvision")


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
    spec = importlib.util.find_spec("torchvision")
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in Path(folder).rglob("*.py")]
    return {name for text in texts for found in _NAMED.findall(text) for name in found if name}
