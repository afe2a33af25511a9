"""What the host of a serving program costs each step, and which graphs it captures: by version.

``[[serving.host]]`` of a data file has a row for each version from which something differs, rising; the last
row that is not newer counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from perfcast.core.serving.host import StepHost
from perfcast.errors import CatalogError, InputError, UnknownNameError
from perfcast.figures import parse_figure, parse_table, parse_toml
from perfcast.frameworks.load import framework_names, profile_folder
from perfcast.frameworks.serving import Version, parse_version

_FIGURES = ("fixed", "sequence", "prompt", "gap", "launch")
_MAY_BE_LEFT_OUT = frozenset({"most_captured", "processor"})
_KEYS = frozenset({"since", "source", "overlaps", "captured", *_FIGURES}) | _MAY_BE_LEFT_OUT


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOfVersion:
    """A program's host from a version on.

    Attributes:
        since: First version, as numbers.
        host: Of each step.
        captured: Of graphs of steps that only decode: up to so many tokens, every so many; empty where none
            is captured.
        most_captured: Tokens of the largest graph where nothing else is set; None: of the largest batch.
        processor: That was timed, of ``cost.host.processors``: others take as many times as long as they are
            slower; '' where the figures are of any.
        source: Where this is written down.
    """

    since: Version
    host: StepHost
    captured: tuple[tuple[int, int], ...]
    most_captured: int | None
    processor: str
    source: str

    def captured_tokens(self, most_tokens: int) -> tuple[int, ...]:
        """Sizes of graphs, rising; the largest is of no more than a step can have."""
        if not self.captured:
            return ()
        most = min(most_tokens, self.most_captured or most_tokens, self.captured[-1][0])
        sizes: list[int] = []
        for up_to, every in self.captured:
            first = sizes[-1] // every * every + every if sizes else every
            sizes += range(first, min(up_to, most) + 1, every)
        return (*(size for size in sizes if size < most), most)


def load_serving_host(framework: str, version: str | None = None) -> HostOfVersion:
    """The host of a framework's version; None: the newest that is known.

    Raises:
        UnknownNameError: None of this name serves requests as they come.
        InputError: No version, or one older than all that are known.
    """
    rows = _load_rows(framework)
    if version is None:
        return rows[-1]
    wanted = parse_version(version)
    found = [row for row in rows if row.since <= wanted]
    if not found:
        raise InputError(f"{framework} {version}: known since {'.'.join(map(str, rows[0].since))}")
    return found[-1]


@cache
def _load_rows(framework: str) -> tuple[HostOfVersion, ...]:
    known = [name for name in framework_names() if _tables(name)]
    if framework not in known:
        raise UnknownNameError("serving framework", framework, known, f"Known: {', '.join(known)}.")
    sources = parse_toml(profile_folder() / f"{framework}.toml")["sources"]
    return parse_serving_host(_tables(framework), sources, f"{framework}.toml: [[serving.host]]")


def _tables(framework: str) -> Sequence[Mapping[str, Any]]:
    content = parse_toml(profile_folder() / f"{framework}.toml")
    found: Sequence[Mapping[str, Any]] = parse_table(content, "serving", framework).get("host", [])
    return found


def parse_serving_host(
    rows: Sequence[Mapping[str, Any]], sources: Mapping[str, str], where: str
) -> tuple[HostOfVersion, ...]:
    """The rows ``[[serving.host]]``.

    Raises:
        CatalogError: A key is missing or unknown, a figure without unit or source, rows that do not rise.
    """
    found = tuple(_parse_row(row, sources, where) for row in rows)
    if [row.since for row in found] != sorted({row.since for row in found}):
        raise CatalogError(f"{where}: rows must stand by rising version")
    return found


def _parse_row(row: Mapping[str, Any], sources: Mapping[str, str], where: str) -> HostOfVersion:
    for key in sorted(row.keys() ^ (_KEYS - (_MAY_BE_LEFT_OUT - row.keys()))):
        raise CatalogError(f"{where}: {key} is {'unknown' if key in row else 'missing'}")
    if not isinstance(row["overlaps"], bool) or row["source"] not in sources:
        raise CatalogError(f"{where}: overlaps is true or false, source one of the file's [sources]")
    steps = tuple((int(up_to), int(every)) for up_to, every in row["captured"])
    if any(every < 1 for _, every in steps) or [up_to for up_to, _ in steps] != sorted({u for u, _ in steps}):
        raise CatalogError(f"{where}: captured has pairs of 'up to' and 'every', rising")

    def figure(key: str) -> float:
        return parse_figure(row[key], sources, f"{where} {key}").si_value

    seconds = {f"{key}_seconds": figure(key) for key in _FIGURES}
    return HostOfVersion(
        since=parse_version(row["since"]),
        host=StepHost(**seconds, overlaps=row["overlaps"]),
        captured=steps,
        most_captured=int(figure("most_captured")) if "most_captured" in row else None,
        processor=str(row.get("processor", "")),
        source=sources[row["source"]],
    )
