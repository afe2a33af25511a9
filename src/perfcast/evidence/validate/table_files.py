"""Where tables of a name lie in folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcast.errors import InputError

_SUFFIXES = (".parquet", ".csv.gz", ".csv")


def find_files(places: Sequence[Path], table: str) -> list[Path]:
    """Files of that stem in folders, and single files of it; each once, by name.

    Raises:
        InputError: A place does not exist.
    """
    found: set[Path] = set()
    for place in map(Path, places):
        if not place.exists():
            raise InputError(f"{place}: no such file or folder")
        paths = place.iterdir() if place.is_dir() else [place]
        found |= {p for p in paths if p.name.split(".")[0] == table and p.name.endswith(_SUFFIXES)}
    return sorted(found)
