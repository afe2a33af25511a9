"""Clusters by name: trees of links, of any number of devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfcast.catalog.devices import find_device_name
from perfcast.catalog.figures import collect_aliases, load_entries, parse_entries, resolve_name
from perfcast.core.cluster import Cluster, Level, Link
from perfcast.errors import CatalogError, PlanError
from perfcast.figures import Figure, parse_figure

#: What no link of today comes near: 100 TB/s of one device, a second of latency.
_MOST_BYTES_PER_SECOND = 1e14
_MOST_LATENCY_SECONDS = 1.0
_MOST_DEVICES = 10_000_000
_FLAGS = ("duplex", "switched", "reduces")
_LEVEL_KEYS = (
    "name",
    "size",
    "kind",
    "latency",
    "bandwidth",
    "port_bandwidth",
    "oversubscription",
    "ring_bandwidth",
    *_FLAGS,
)
_CLUSTER_KEYS = ("title", "device", "aliases", "note", "even", "levels")


@dataclass(frozen=True)
class ClusterEntry:
    """A cluster as its data file states it; the number of devices is still open.

    Attributes:
        levels: From the devices outwards; size 0 is what the number of devices leaves.
        is_even: Whether all levels share the devices evenly (a torus), rather than filling up from inside.
        figures: By level and key: 'node.bandwidth'.
    """

    name: str
    title: str
    device: str
    levels: tuple[Level, ...]
    is_even: bool
    aliases: tuple[str, ...]
    figures: Mapping[str, Figure]
    note: str = ""

    def of_size(self, num_devices: int | None = None) -> Cluster:
        """The cluster of so many devices; by default all levels of a stated size once.

        Raises:
            PlanError: The levels cannot hold that many evenly.
        """
        sizes = [level.size for level in self.levels]
        if num_devices is None:
            sizes = [size or 1 for size in sizes]
        elif not 1 <= num_devices <= _MOST_DEVICES:
            raise PlanError(
                f"cluster '{self.name}' of {num_devices} devices: 1 to {_MOST_DEVICES} are possible"
            )
        else:
            sizes = _even_sizes(num_devices, len(sizes)) if self.is_even else self._filled(num_devices)
        levels = tuple(
            Level(level.name, size, level.link) for level, size in zip(self.levels, sizes, strict=True)
        )
        return Cluster(self.name, self.title, self.device, levels, self.note)

    def _filled(self, num_devices: int) -> list[int]:
        """Inner levels are full before an outer one begins; the outermost takes the rest."""
        sizes, left = [], num_devices
        for level in self.levels:
            size = min(left, level.size) if level.size else left
            if left % size:
                inner = num_devices // left
                raise PlanError(
                    f"cluster '{self.name}' of {num_devices} devices: level '{level.name}' holds "
                    f"{size * inner}, and {num_devices} is no multiple of it; "
                    f"take {num_devices - num_devices % (size * inner)} or "
                    f"{num_devices + -num_devices % (size * inner)}"
                )
            sizes.append(size)
            left //= size
        if left > 1:
            most = num_devices // left
            raise PlanError(f"cluster '{self.name}' of {num_devices} devices: it has at most {most}")
        return sizes


def load_cluster(name: str) -> Cluster:
    """A cluster of the catalog by name or alias, or of a ``.toml`` file, with ``:N`` for its devices.

    >>> load_cluster("dgx-h100:64").num_devices
    64

    Raises:
        UnknownNameError: Not in the catalog; lists close names.
        CatalogError: The file does not describe exactly one cluster, or a figure fails its checks.
        PlanError: A number of devices that the cluster cannot have.
    """
    stem, colon, count = name.rpartition(":")
    if not colon:
        return load_cluster_entry(name).of_size()
    if not count.isdecimal():
        raise PlanError(f"cluster '{name}': '{count}' is not a number of devices; write NAME:N")
    return load_cluster_entry(stem).of_size(int(count))


def load_cluster_entry(name: str) -> ClusterEntry:
    """Like ``load_cluster``, before the number of devices is known, with the source of every figure."""
    if name.endswith(".toml"):
        entries = parse_cluster_file(Path(name))
        if len(entries) != 1:
            raise CatalogError(f"{name}: expected one cluster under [clusters], found {len(entries)}")
        return next(iter(entries.values()))
    entries = dict(load_cluster_entries())
    aliases = collect_aliases({key: entry.aliases for key, entry in entries.items()})
    hint = "See 'perfcast catalog clusters'; a path ending in .toml names a file of your own."
    return entries[resolve_name("cluster", name, entries, aliases, hint)]


@cache
def load_cluster_entries() -> Mapping[str, ClusterEntry]:
    """All clusters of the catalog, checked, in the order of the files."""
    return load_entries("clusters", "cluster", parse_cluster_file)


def parse_cluster_file(path: Path) -> dict[str, ClusterEntry]:
    """All clusters of one data file.

    Raises:
        CatalogError: Names file, cluster, level and figure at fault.
    """
    return parse_entries(path, "clusters", _parse_cluster)


def _parse_cluster(
    name: str, table: Mapping[str, Any], sources: Mapping[str, str], where: str
) -> ClusterEntry:
    _check_keys(table, _CLUSTER_KEYS, ("title", "device", "levels"), where)
    device = find_device_name(str(table["device"]))
    if device is None:
        raise CatalogError(f"{where}: unknown device {table['device']!r}; see 'perfcast catalog devices'")
    rows = table["levels"]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise CatalogError(f"{where}: levels must be a list of tables, from the devices outwards")
    levels, figures = [], dict[str, Figure]()
    for index, row in enumerate(rows):
        level, mine = _parse_level(row, sources, f"{where}.levels[{index}]")
        is_open = level.size == 0
        if is_open and index < len(rows) - 1 and not table.get("even"):
            raise CatalogError(f"{where}.levels[{index}]: only the outermost level may be without size")
        levels.append(level)
        figures |= {f"{level.name}.{key}": figure for key, figure in mine.items()}
    if len({level.name for level in levels}) < len(levels):
        raise CatalogError(f"{where}: two levels have one name")
    return ClusterEntry(
        name=name,
        title=str(table["title"]),
        device=device,
        levels=tuple(levels),
        is_even=bool(table.get("even", False)),
        aliases=tuple(table.get("aliases", ())),
        figures=MappingProxyType(figures),
        note=str(table.get("note", "")),
    )


def _parse_level(
    row: Mapping[str, Any], sources: Mapping[str, str], where: str
) -> tuple[Level, dict[str, Figure]]:
    _check_keys(row, _LEVEL_KEYS, ("name", "kind", "latency", "bandwidth"), where)
    for flag in _FLAGS:
        if not isinstance(row.get(flag, True), bool):
            raise CatalogError(f"{where}.{flag}: {row[flag]!r} is neither true nor false")
    size = row.get("size", 0)
    if isinstance(size, bool) or not isinstance(size, int) or size < 0 or ("size" in row and size < 1):
        raise CatalogError(f"{where}.size: {size!r} is not a positive number of children")
    figures = {
        key: parse_figure(row[key], sources, f"{where}.{key}")
        for key in ("latency", "bandwidth", "port_bandwidth", "oversubscription")
        if key in row
    }
    rings = _parse_rings(row.get("ring_bandwidth", []), size, sources, f"{where}.ring_bandwidth")
    figures |= {f"ring_bandwidth.{count}": figure for count, figure in enumerate(rings, start=2)}
    link = Link(
        kind=str(row["kind"]),
        latency_seconds=figures["latency"].si_value,
        bytes_per_second=figures["bandwidth"].si_value,
        is_duplex=row.get("duplex", True),
        oversubscription=figures["oversubscription"].si_value if "oversubscription" in figures else 1.0,
        reduces_in_network=row.get("reduces", False),
        is_switched=row.get("switched", True),
        ring_bytes_per_second=tuple(figure.si_value for figure in rings),
        port_bytes_per_second=figures["port_bandwidth"].si_value if "port_bandwidth" in figures else 0.0,
    )
    _check_plausible(link, where)
    return Level(str(row["name"]), size, link), figures


def _parse_rings(rows: Any, size: int, sources: Mapping[str, str], where: str) -> list[Figure]:
    if not isinstance(rows, list) or (rows and len(rows) != size - 1):
        raise CatalogError(f"{where}: expected one figure for each group of 2 … {size} members")
    return [parse_figure(row, sources, f"{where}[{index}]") for index, row in enumerate(rows)]


def _check_keys(table: Mapping[str, Any], known: Sequence[str], required: Sequence[str], where: str) -> None:
    for key in required:
        if key not in table:
            raise CatalogError(f"{where}: {key} missing")
    for key in table:
        if key not in known:
            raise CatalogError(f"{where}: unknown key {key!r}; known: {', '.join(known)}")


def _check_plausible(link: Link, where: str) -> None:
    if link.bytes_per_second > _MOST_BYTES_PER_SECOND:
        raise CatalogError(f"{where}.bandwidth: {link.bytes_per_second:.3g} bytes per second of one device")
    if 0 < link.port_bytes_per_second < link.bytes_per_second:
        raise CatalogError(f"{where}.port_bandwidth: less than bandwidth, a device's share of all ports")
    if link.latency_seconds > _MOST_LATENCY_SECONDS:
        raise CatalogError(f"{where}.latency: {link.latency_seconds:g} s, more than a second")
    if link.oversubscription < 1:
        raise CatalogError(f"{where}.oversubscription: {link.oversubscription:g} is less than 1 (none)")


def _even_sizes(count: int, num_levels: int) -> list[int]:
    """Factors as equal as they come, the smallest first: 4096 in three is 16 · 16 · 16.

    >>> _even_sizes(8960, 3)
    [16, 20, 28]
    """
    if num_levels == 1:
        return [count]
    best = [1] * (num_levels - 1) + [count]
    for first in range(1, math.floor(count ** (1 / num_levels) + 1e-9) + 1):
        if count % first == 0:
            sizes = sorted([first, *_even_sizes(count // first, num_levels - 1)])
            if sizes[-1] - sizes[0] <= best[-1] - best[0]:
                best = sizes
    return best
