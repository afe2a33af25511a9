"""Published reuse histograms of embedding lookups, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perfcast.catalogs.figures import load_entries, parse_entries, resolve_name
from perfcast.core.embedding.lookup import ReuseHistogram
from perfcast.core.embedding.reuse import part_of_reuse, reuse_of_fractions
from perfcast.errors import CatalogError, InputError
from perfcast.figures import parse_source, parse_text
from perfcast.ranges import excerpt

_COUNTS = ("num_tables", "batch_size", "num_lookups", "num_rows")
_SHARES = ("row_fractions", "lookup_fractions")


@dataclass(frozen=True, slots=True)
class ReuseEntry:
    """A histogram of a table that has an equal part of what was published of many.

    Attributes:
        batch_size: Samples of the batch that was counted.
        source: The document, in full.
    """

    name: str
    title: str
    batch_size: int
    reuse: ReuseHistogram
    source: str


@cache
def load_reuse_entries() -> Mapping[str, ReuseEntry]:
    """All of the catalog, by name."""
    return load_entries("reuse", "reuse histogram", parse_reuse_file)


def load_reuse(name: str) -> ReuseEntry:
    """One by name.

    Raises:
        UnknownNameError: Not in the catalog.
    """
    entries = load_reuse_entries()
    return entries[resolve_name("reuse histogram", name, entries, {}, f"Known: {', '.join(entries)}.")]


def parse_reuse_file(path: Path) -> Mapping[str, ReuseEntry]:
    """Entries of one data file.

    Raises:
        CatalogError: One is not whole, has no source, or contradicts itself.
    """
    return parse_entries(path, "reuse", _parse_reuse)


def _parse_reuse(name: str, row: Mapping[str, Any], sources: Mapping[str, str], where: str) -> ReuseEntry:
    missing = [key for key in ("title", "source", *_COUNTS, *_SHARES) if key not in row]
    if missing:
        raise CatalogError(f"{where}: {' and '.join(missing)} missing")
    source = parse_source(row["source"], sources, where)
    for key in _COUNTS:
        if not isinstance(row[key], int) or isinstance(row[key], bool) or row[key] < 1:
            raise CatalogError(f"{where}: {key} = {excerpt(row[key])} is not a whole number from 1")
    try:
        whole = reuse_of_fractions(
            row["row_fractions"], row["lookup_fractions"], row["num_rows"], row["num_lookups"]
        )
    except (InputError, TypeError, ValueError) as error:
        raise CatalogError(f"{where}: {error}") from None
    reuse = part_of_reuse(whole, 1 / row["num_tables"])
    return ReuseEntry(name, parse_text(row, "title", where), row["batch_size"], reuse, source)
