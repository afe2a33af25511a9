"""What decides every figure beside the question: what is shipped, what was measured here, libraries."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from perfcast.cost.profile import data_folder
from perfcast.files.digests import digest_of_all

_ROOT = Path(__file__).resolve().parents[1]
#: Folders of what is listed, with a source for each figure.
_CATALOG = ("catalogs/data", "frameworks/data")
#: Rooms whose other files of data are trained or fitted.
_FITTED = ("cost", "memory_use", "prediction")
#: Endings of what is data in them.
_DATA = (".toml", ".json", ".gz", ".npz", ".csv")
#: Packages whose code decides what is captured or computed.
_LIBRARIES = ("numpy", "torch", "transformers", "timm")


@cache
def catalog_digest() -> str:
    """Of the devices, clusters, models and frameworks that are shipped."""
    return digest_of_all(_ROOT, [path for place in _CATALOG for path in _data_in(_ROOT / place)])


@cache
def weights_digest() -> str:
    """Of the trained weights and fitted constants that are shipped."""
    return digest_of_all(_ROOT, [path for place in _FITTED for path in _data_in(_ROOT / place)])


def measurements_digest() -> str | None:
    """Of profiles and corrections in the user's data folder; None: there are none."""
    folder = data_folder()
    try:
        found = sorted(folder.glob("*.json"))
        return digest_of_all(folder, found) if found else None
    except OSError:
        return None


@cache
def program_digest() -> str:
    """Of all files of the package: its code, its catalog, its weights."""
    found = (path for path in _ROOT.rglob("*") if path.suffix not in (".pyc", ".tmp"))
    return digest_of_all(_ROOT, [path for path in found if path.is_file()])


@cache
def library_versions() -> Mapping[str, str]:
    """Package → version, of those that are installed."""
    found = {name: _installed_version(name) for name in _LIBRARIES}
    versions = {name: version for name, version in found.items() if version is not None}
    return {"python": platform.python_version(), **versions}


def _installed_version(name: str) -> str | None:
    """As the package's folder of metadata is called, without opening it."""
    for folder in filter(None, sys.path):
        for place in Path(folder).glob(f"{name}-*.dist-info"):
            return place.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return None


def _data_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in _DATA and path.is_file()]
