"""The catalog's own files, and names as their entries are found by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from perfcast.errors import CatalogError, UnknownNameError
from perfcast.figures import Problems, parse_table, parse_toml

Entry = TypeVar("Entry")


def data_files(folder: str) -> list[Path]:
    """The catalog's own files of one kind, sorted by name."""
    root = Path(str(resources.files("perfcast.catalogs") / "data" / folder))
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


def parse_entries(
    path: Path, section: str, parse: Callable[[str, Mapping[str, Any], Mapping[str, str], str], Entry]
) -> dict[str, Entry]:
    """Every entry of one section of a file.

    Args:
        parse: A name, its table, the file's sources, and where that stands → an entry.

    Raises:
        CatalogError: Not TOML, or no such tables; and everything that ``parse`` refuses, at once.
    """
    content = parse_toml(path)
    sources = parse_table(content, "sources", path.name)
    tables = parse_table(content, section, path.name)
    found, problems = dict[str, Entry](), Problems()
    for name in tables:
        with problems.gathered():
            found[name] = parse(name, parse_table(tables, name, path.name), sources, f"{path.name}: {name}")
    problems.check()
    return found


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
