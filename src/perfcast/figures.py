"""Reading data files in which every number carries its unit and its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.errors import CatalogError
from perfcast.files.reading import read_toml
from perfcast.ranges import excerpt
from perfcast.units import UNIT_FACTORS


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


#: So many problems of a file are said at once.
_MOST_PROBLEMS = 50


class Problems:
    """What is wrong with a file, gathered so that one message says all of it."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def note(self, problem: str) -> None:
        """One more."""
        self._found.append(problem)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """What is refused inside is noted, and what follows goes on."""
        try:
            yield
        except CatalogError as error:
            self._found += error.problems or [str(error)]

    def check(self) -> None:
        """Raises CatalogError with what was noted first, if anything was; how many more there are is said."""
        if self._found:
            more = len(self._found) - _MOST_PROBLEMS
            said = [*self._found[:_MOST_PROBLEMS], *([f"… and {more} more"] if more > 0 else [])]
            raise CatalogError("\n".join(said), problems=tuple(self._found))


#: No figure of hardware comes near it, and what is reckoned with it stays finite.
_LARGEST = 1e30


def parse_figure(entry: Any, sources: Mapping[str, str], where: str) -> Figure:
    """Check one ``{ value = …, unit = …, source = … }``.

    Raises:
        CatalogError: A part is missing, the value is not a positive number, unit or source is unknown.
    """
    if not isinstance(entry, Mapping):
        raise CatalogError(f"{where}: expected a table with value, unit and source, found {excerpt(entry)}")
    missing = [key for key in ("value", "unit", "source") if key not in entry]
    if missing:
        raise CatalogError(f"{where}: {' and '.join(missing)} missing")
    value, unit, source = entry["value"], entry["unit"], entry["source"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
        raise CatalogError(f"{where}: {excerpt(value)} is not a positive number")
    if not isinstance(unit, str) or unit not in UNIT_FACTORS:
        raise CatalogError(f"{where}: unknown unit {excerpt(unit)}; known: {', '.join(UNIT_FACTORS)}")
    return Figure(float(value), unit, parse_source(source, sources, where))


def parse_source(key: Any, sources: Mapping[str, str], where: str) -> str:
    """What the file's [sources] say of one of them.

    Raises:
        CatalogError: They do not have it, or it is no text.
    """
    if not isinstance(key, str) or key not in sources:
        raise CatalogError(f"{where}: source {excerpt(key)} is not in the file's [sources]")
    return parse_text(sources, key, "[sources]")


def parse_text(table: Mapping[str, Any], key: str, where: str, usual: str | None = None) -> str:
    """The text under ``key``.

    Args:
        usual: What is taken where there is none; None: it is needed.

    Raises:
        CatalogError: It is missing, or something else than a text is there.
    """
    found = table.get(key, usual)
    if not isinstance(found, str):
        raise CatalogError(f"{where}.{key}: expected a text, found {excerpt(found)}")
    return found


def parse_texts(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """The list of texts under ``key``, empty if it is not there.

    Raises:
        CatalogError: Something else is there.
    """
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise CatalogError(f"{where}.{key}: expected a list of texts, found {excerpt(found)}")
    return tuple(found)


def parse_toml(path: Path) -> dict[str, Any]:
    """A TOML file's content; a broken or unreadable one is a CatalogError that names the place."""
    return read_toml(path, what="the catalog file", error=CatalogError)


def parse_table(content: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """The table under ``key``, empty if it is not there.

    Raises:
        CatalogError: Something else than a table is there.
    """
    table = content.get(key, {})
    if not isinstance(table, Mapping):
        raise CatalogError(f"{where}: expected a table under {excerpt(key)}, found {excerpt(table)}")
    return table
