"""Reading data files in which every number carries its unit and its source."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from perfcast.errors import CatalogError, UnknownNameError
from perfcast.units import UNIT_FACTORS

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as its source states it.

    Attributes:
        value, unit: As written.
        source: The document, in full.
    """

    value: float
    unit: str
    source: str

    @property
    def si_value(self) -> float:
        """The value in the unit used inside the package."""
        return self.value * UNIT_FACTORS[self.unit]


def parse_figure(entry: Any, sources: Mapping[str, str], where: str) -> Figure:
    """Check one ``{ value = …, unit = …, source = … }``.

    Raises:
        CatalogError: A part is missing, the value is not a positive number, unit or source is unknown.
    """
    if not isinstance(entry, Mapping):
        raise CatalogError(f"{where}: expected a table with value, unit and source, found {entry!r}")
    missing = [key for key in ("value", "unit", "source") if key not in entry]
    if missing:
        raise CatalogError(f"{where}: {' and '.join(missing)} missing")
    value, unit, source = entry["value"], entry["unit"], entry["source"]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise CatalogError(f"{where}: {value!r} is not a positive number")
    if unit not in UNIT_FACTORS:
        raise CatalogError(f"{where}: unknown unit {unit!r}; known: {', '.join(UNIT_FACTORS)}")
    if source not in sources:
        raise CatalogError(f"{where}: source {source!r} is not in the file's [sources]")
    return Figure(float(value), unit, sources[source])


def parse_toml(path: Path) -> dict[str, Any]:
    """A TOML file's content; a broken or unreadable one is a CatalogError that names the place."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise CatalogError(f"{path}: {error.strerror or error}") from None


def parse_table(content: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """The table under ``key``, empty if it is not there.

    Raises:
        CatalogError: Something else than a table is there.
    """
    table = content.get(key, {})
    if not isinstance(table, Mapping):
        raise CatalogError(f"{where}: expected a table under {key!r}, found {table!r}")
    return table


def data_files(folder: str) -> list[Path]:
    """The catalog's own files of one kind, sorted by name."""
    root = Path(str(resources.files("perfcast.catalog") / "data" / folder))
    return sorted(root.glob("*.toml"))


def load_entries(folder: str, kind: str, parse: Callable[[Path], Mapping[str, Entry]]) -> Mapping[str, Entry]:
    """Every entry of a folder's files, in the order of the files.

    Raises:
        CatalogError: A name in two files.
    """
    entries: dict[str, Entry] = {}
    for path in data_files(folder):
        for name, entry in parse(path).items():
            if name in entries:
                raise CatalogError(f"{path}: {kind} {name!r} is described twice")
            entries[name] = entry
    return MappingProxyType(entries)


def normalize(name: str) -> str:
    """Lower case, blanks and underscores as dashes: the spelling under which names are compared."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def resolve_name(kind: str, name: str, names: Iterable[str], aliases: Mapping[str, str], hint: str) -> str:
    """The catalog's name for ``name``.

    Raises:
        UnknownNameError: Neither a name nor an alias; the message lists close ones.
    """
    wanted = normalize(name)
    known = set(names)
    if wanted in known:
        return wanted
    if wanted in aliases:
        return aliases[wanted]
    raise UnknownNameError(kind, name, sorted(known), hint)


def collect_aliases(entries: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Normalized alias → name.

    Raises:
        CatalogError: An alias stands for two names.
    """
    aliases: dict[str, str] = {}
    for name, spellings in entries.items():
        for alias in map(normalize, spellings):
            if alias != name and (alias in entries or aliases.get(alias, name) != name):
                raise CatalogError(f"alias {alias!r} of {name!r} already stands for another entry")
            aliases[alias] = name
    return aliases
