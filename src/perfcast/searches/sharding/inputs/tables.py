"""Tables from a file: CSV, JSON or TOML, one entry a table.

    name                what the plan calls it; every table another
    num_rows, dim       of the table
    pooling             mean lookups of a bag
    dtype               of the weights: fp32 (default), fp16, bf16, int8 …
    pooling_deviation   standard deviation of lookups over bags (default 0)
    reuse_rows, reuse_lookups
                        17 counts each (``core/embedding/lookup.ReuseHistogram``); JSON and TOML alone

CSV has these names as its first line; JSON is a list of objects, or an object with a list ``tables``; TOML
has ``[[tables]]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfcast.core.dtype import DTYPES_BY_LABEL, DType
from perfcast.core.embedding.lookup import EmbeddingTable, ReuseHistogram
from perfcast.errors import InputError, UnknownNameError
from perfcast.files.limits import DOCUMENT_BYTES, TOML_BYTES
from perfcast.files.plain import parse_toml
from perfcast.files.reading import read_json, read_text
from perfcast.files.reading_tables import csv_entries

_REQUIRED = ("name", "num_rows", "dim", "pooling")
_OPTIONAL = ("dtype", "pooling_deviation", "reuse_rows", "reuse_lookups")
_WHAT = "the list of tables"


def load_tables(path: str | Path) -> tuple[EmbeddingTable, ...]:
    """Tables of a file, in its order.

    Raises:
        InputError: A file that cannot be read, or an entry that is no table; says which line or entry.
    """
    readers = {".csv": _csv_entries, ".json": _json_entries, ".toml": _toml_entries}
    suffix = Path(path).suffix.lower()
    if suffix not in readers:
        raise InputError(f"{path}: tables are read from .csv, .json or .toml")
    tables: list[EmbeddingTable] = []
    seen: dict[str, str] = {}
    for place, entry in readers[suffix](Path(path)):
        table = _table(entry, place)
        if table.name in seen:
            raise InputError(f"{place}: table {table.name!r} stands at {seen[table.name]} too")
        seen[table.name] = place.rpartition(": ")[2] if ": " in place else place
        tables.append(table)
    if not tables:
        raise InputError(f"{path}: there is no table in it")
    return tuple(tables)


def _csv_entries(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for line, entry in csv_entries(path, what=_WHAT, usual_bytes=DOCUMENT_BYTES):
        yield f"{path}, line {line}", {key: cell.strip() for key, cell in entry.items() if cell.strip()}


def _json_entries(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    data = read_json(path, what=_WHAT)
    entries = data.get("tables") if isinstance(data, dict) else data
    yield from _listed(entries, path, [])


def _toml_entries(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    text = read_text(path, what=_WHAT, usual_bytes=TOML_BYTES)
    data = parse_toml(text, str(path))
    heads = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() == "[[tables]]"]
    yield from _listed(data.get("tables"), path, heads)


def _listed(entries: object, path: Path, lines: list[int]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(entries, list):
        raise InputError(f"{path}: it has no list of tables")
    has_lines = len(lines) == len(entries)
    for number, entry in enumerate(entries):
        place = f"{path}, line {lines[number]}" if has_lines else f"{path}, entry {number + 1}"
        if not isinstance(entry, dict):
            raise InputError(f"{place}: not an object with {', '.join(_REQUIRED)}")
        yield place, entry


def _table(entry: Mapping[str, Any], place: str) -> EmbeddingTable:
    missing = [key for key in _REQUIRED if key not in entry]
    if missing:
        raise InputError(f"{place}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    unknown = [key for key in entry if key not in (*_REQUIRED, *_OPTIONAL)]
    if unknown:
        raise UnknownNameError(f"{place}: column", unknown[0], (*_REQUIRED, *_OPTIONAL))
    try:
        return EmbeddingTable(
            name=str(entry["name"]),
            num_rows=_count(entry, "num_rows", place),
            dim=_count(entry, "dim", place),
            pooling=_number(entry, "pooling", place),
            dtype=_dtype(entry, place),
            pooling_deviation=_number(entry, "pooling_deviation", place),
            reuse=_reuse(entry, place),
        )
    except InputError as error:
        raise error if str(error).startswith(place) else InputError(f"{place}: {error}") from None


def _count(entry: Mapping[str, Any], key: str, place: str) -> int:
    value = _number(entry, key, place)
    if value != int(value):
        raise InputError(f"{place}: {key} is {entry[key]!r}; it is a whole number")
    return int(value)


def _number(entry: Mapping[str, Any], key: str, place: str) -> float:
    value = entry.get(key, 0.0)
    try:
        number = float(value)
        if isinstance(value, bool) or not abs(number) < float("inf"):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{place}: {key} is {value!r}; it is a number") from None
    return number


def _dtype(entry: Mapping[str, Any], place: str) -> DType:
    label = str(entry.get("dtype", DType.FP32.label))
    if label not in DTYPES_BY_LABEL:
        raise UnknownNameError(f"{place}: dtype", label, DTYPES_BY_LABEL)
    return DTYPES_BY_LABEL[label]


def _reuse(entry: Mapping[str, Any], place: str) -> ReuseHistogram | None:
    given = [entry.get(key) for key in ("reuse_rows", "reuse_lookups")]
    if given == [None, None]:
        return None
    if not all(isinstance(counts, list) for counts in given):
        raise InputError(f"{place}: reuse_rows and reuse_lookups are two lists of 17 counts")
    rows, lookups = (
        tuple(_number({key: count}, key, place) for count in counts or ())
        for key, counts in zip(("reuse_rows", "reuse_lookups"), given, strict=True)
    )
    return ReuseHistogram(rows, lookups)
