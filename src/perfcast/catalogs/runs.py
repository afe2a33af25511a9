"""Published figures of long training runs: how often they are interrupted, restarts, storage, power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from perfcast.catalogs.figures import data_files
from perfcast.errors import CatalogError
from perfcast.figures import Figure, parse_figure, parse_table, parse_toml

_COUNTS = ("count", "time", "devices")
_FIGURES = (
    "restart",
    "storage_of_a_device",
    "host_link",
    "node_power_ratio",
    "waiting_power_ratio",
    "pue",
)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Published figures of long runs.

    Attributes:
        interruptions: Mean seconds between two interruptions that one device of an architecture causes, as a
            figure in seconds; 'default' for architectures of which nothing is published.
        figures: By name: 'restart' (seconds), 'storage_of_a_device' and 'host_link' (bytes per second),
            'node_power_ratio' (a node's share of a device that computes, over the device's rated power),
            'waiting_power_ratio' (of a device that computes nothing), 'pue'.
    """

    interruptions: Mapping[str, Figure]
    figures: Mapping[str, Figure]

    def between_interruptions(self, architecture: str) -> tuple[Figure, bool]:
        """Mean seconds between interruptions of one device, and whether they are its architecture's own."""
        is_own = architecture in self.interruptions
        return self.interruptions[architecture if is_own else "default"], is_own


@cache
def load_run_figures() -> RunFigures:
    """The catalog's figures, checked."""
    (path,) = data_files("runs")
    return parse_run_file(path)


def parse_run_file(path: Path) -> RunFigures:
    """Figures of one data file.

    Raises:
        CatalogError: One is missing, or has no source.
    """
    content = parse_toml(path)
    sources = parse_table(content, "sources", path.name)
    rows = parse_table(content, "interruptions", path.name)
    stated = parse_table(content, "figures", path.name)
    if "default" not in rows:
        raise CatalogError(f"{path.name}: interruptions.default missing")
    missing = [name for name in _FIGURES if name not in stated]
    if missing:
        raise CatalogError(f"{path.name}: figures: {', '.join(missing)} missing")
    interruptions = {
        name: _between(parse_table(rows, name, path.name), sources, f"{path.name}: interruptions.{name}")
        for name in rows
    }
    figures = {name: parse_figure(stated[name], sources, f"{path.name}: {name}") for name in _FIGURES}
    return RunFigures(MappingProxyType(interruptions), MappingProxyType(figures))


def _between(row: Mapping[str, object], sources: Mapping[str, str], where: str) -> Figure:
    """time · devices / count."""
    count, time, devices = (parse_figure(row.get(key), sources, f"{where}.{key}") for key in _COUNTS)
    return Figure(time.si_value * devices.value / count.value, "s", count.source)
