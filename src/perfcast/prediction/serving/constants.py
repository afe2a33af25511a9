"""Constants of serving as a whole: what no step's time holds. The data file states their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfcast.errors import CatalogError
from perfcast.figures import parse_figure, parse_table, parse_toml
from perfcast.frameworks.serving import load_serving_profiles

#: Figures that have a spread of their own.
SPREADS = ("time_to_first_token", "time_per_output_token", "end_to_end", "rates")


@dataclass(frozen=True, slots=True)
class Spread:
    """Measured over forecast: factors between which 90 % lie, and where that is from."""

    low: float
    high: float
    source: str


@dataclass(frozen=True)
class ServingConstants:
    """Constants of serving.

    Attributes:
        spreads: By the words of ``SPREADS``, where one pool serves.
        spreads_of_two_pools: Where two do.
        request_seconds: From a client to an engine's queue and back, by framework; 0 where none is stated.
        handover_seconds: Of a request between two pools, beside its keys and values, likewise.
        steps_share: Of the logarithm of the steps' own interval, that which is joined with a spread: prices
            of kernels err less together than each alone.
    """

    spreads: Mapping[str, Spread]
    spreads_of_two_pools: Mapping[str, Spread]
    request_seconds: Mapping[str, float]
    handover_seconds: Mapping[str, float]
    steps_share: float = 1.0

    def spreads_of(self, num_pools: int) -> Mapping[str, Spread]:
        """Of deployments in one pool, or in two."""
        return self.spreads if num_pools == 1 else self.spreads_of_two_pools


@cache
def load_serving_constants() -> ServingConstants:
    """The shipped constants, checked."""
    return parse_serving_constants(
        Path(str(resources.files("perfcast.prediction.serving") / "constants.toml"))
    )


def parse_serving_constants(path: Path) -> ServingConstants:
    """The constants of a file.

    Raises:
        CatalogError: One is missing, or has no unit or source, or a spread does not hold 1.
    """
    content = parse_toml(path)
    sources = parse_table(content, "sources", path.name)
    return ServingConstants(
        spreads=_spreads(content, "spread", sources, path.name),
        spreads_of_two_pools=_spreads(content, "spread_of_two_pools", sources, path.name),
        request_seconds=_by_framework(content, "request_seconds", sources, path.name),
        handover_seconds=_by_framework(content, "handover_seconds", sources, path.name),
        steps_share=_steps_share(content, sources, path.name),
    )


def _spreads(
    content: Mapping[str, Any], key: str, sources: Mapping[str, str], where: str
) -> Mapping[str, Spread]:
    table = parse_table(content, key, where)
    if set(table) != set(SPREADS):
        raise CatalogError(f"{where}: [{key}] has {', '.join(SPREADS)}")
    found = {}
    for name in SPREADS:
        row = parse_table(table, name, where)
        ends = {end: parse_figure(row.get(end), sources, f"{where}: {name}") for end in ("low", "high")}
        low, high = ends["low"].si_value, ends["high"].si_value
        if not low <= 1 <= high:
            raise CatalogError(f"{where}: {name}: a spread from {low:g} to {high:g} does not hold 1")
        found[name] = Spread(low, high, ends["high"].source)
    return MappingProxyType(found)


def _steps_share(content: Mapping[str, Any], sources: Mapping[str, str], where: str) -> float:
    if "steps" not in content:
        return 1.0
    share = parse_figure(
        parse_table(content, "steps", where).get("share"), sources, f"{where}: steps"
    ).si_value
    if not 0 <= share <= 1:
        raise CatalogError(f"{where}: steps: a share of {share:g}: between 0 and 1")
    return share


def _by_framework(
    content: Mapping[str, Any], key: str, sources: Mapping[str, str], where: str
) -> Mapping[str, float]:
    table, known = parse_table(content, key, where), load_serving_profiles()
    for name in table:
        if name not in known:
            raise CatalogError(f"{where}: {key}: {name} does not serve; known: {', '.join(known)}")
    figures = {name: parse_figure(row, sources, f"{where}: {key}.{name}") for name, row in table.items()}
    return MappingProxyType({name: figures[name].si_value if name in figures else 0.0 for name in known})
