"""Fitted figures written into the text of a framework's data file; everything else in it stays as it is."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from perfcast.errors import CatalogError
from perfcast.files.writing import write_fitted_text
from perfcast.frameworks.load import profile_folder
from perfcast.units import UNIT_FACTORS


def write_profiles(
    fitted: Mapping[str, Mapping[str, float]], folder: Path, *, table: str, source: str
) -> tuple[Path, ...]:
    """The data files of some frameworks with fitted values in place of theirs.

    Args:
        fitted: By framework and key, in the package's own units (seconds, bytes).
        folder: Where they go; the shipped ones stay as they are.
        table: Of the files, in which the keys are.
        source: Key of the files' [sources] that fitted figures have.

    Raises:
        CatalogError: A file has no such figure, or not from that source.
    """
    return tuple(_write(name, values, folder, table, source) for name, values in fitted.items())


def _write(name: str, values: Mapping[str, float], folder: Path, table: str, source: str) -> Path:
    path = folder / f"{name}.toml"
    lines = (profile_folder() / path.name).read_text(encoding="utf-8").splitlines()
    for key, value in values.items():
        place = _find(lines, table, key)
        figure = tomllib.loads(lines[place])[key] if place is not None else {}
        if place is None or figure["source"] != source:
            raise CatalogError(f"{path.name}: [{table}] has no figure {key} from source '{source}'")
        written = f"{value / UNIT_FACTORS[figure['unit']]:.4g}"
        lines[place] = f'{key} = {{ value = {written}, unit = "{figure["unit"]}", source = "{source}" }}'
    write_fitted_text(path, "\n".join(lines) + "\n")
    return path


def _find(lines: list[str], table: str, key: str) -> int | None:
    """The line of a key in a table."""
    current = ""
    for place, line in enumerate(lines):
        if line.startswith("["):
            current = line.strip("[]")
        elif current == table and line.startswith(f"{key} = "):
            return place
    return None
