"""Clusters by name: trees of links, of any number of devices."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfcast.catalogs.devices import find_device_name
from perfcast.catalogs.figures import collect_aliases, load_entries, parse_entries, resolve_name
from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.errors import CatalogError, PlanError
from perfcast.figures import Figure, Problems, parse_figure, parse_texts
from perfcast.ranges import DEVICES, excerpt, read_whole

#: What no link of today comes near: 100 TB/s of one device, a second of latency.
_MOST_BYTES_PER_SECOND = 1e14
_MOST_LATENCY_SECONDS = 1.0
_MOST_DEVICES = int(DEVICES.largest)
_FLAGS = ("duplex", "switched", "reduces")
_LEVEL_KEYS = (
    "name",
    "size",
    "tray",
    "kind",
    "latency",
    "bandwidth",
    "port_bandwidth",
    "oversubscription",
    "ring_bandwidth",
    *_FLAGS,
)
_CLUSTER_KEYS = ("title", "device", "aliases", "note", "even", "most_devices", "levels")
#: Levels that are one server, or one domain of the fastest links; where none is so called, the innermost is.
_SERVERS = ("node", "rack")


@dataclass(frozen=True)
class ClusterEntry:
    """A cluster as its data file states it; the number of devices is still open.

    Attributes:
        levels: From the devices outwards; size 0 is what the number of devices leaves.
        is_even: Whether all levels share the devices evenly (a torus), rather than filling up from inside.
        figures: By level and key: 'node.bandwidth'.
        most_devices: What its links can join.
        trays: Of each level, the unit in which a job may take a part of it where several are used; 0: whole.
    """

    name: str
    title: str
    device: str
    levels: tuple[Level, ...]
    is_even: bool
    aliases: tuple[str, ...]
    figures: Mapping[str, Figure]
    note: str = ""
    trays: tuple[int, ...] = ()
    most_devices: int = _MOST_DEVICES

    def of_size(self, num_devices: int | None = None) -> Cluster:
        """The cluster of so many devices; by default all levels of a stated size once.

        Raises:
            PlanError: The levels cannot hold that many evenly.
        """
        sizes = [level.size for level in self.levels]
        if num_devices is None:
            sizes = [size or 1 for size in sizes]
        elif not 1 <= num_devices <= self.most_devices:
            raise PlanError(
                f"cluster '{self.name}' of {num_devices} devices: 1 to {self.most_devices} are possible"
            )
        else:
            sizes = _even_sizes(num_devices, len(sizes)) if self.is_even else self._filled(num_devices)
        levels = tuple(
            Level(level.name, size, level.link) for level, size in zip(self.levels, sizes, strict=True)
        )
        note = " ".join(filter(None, (self.note, self.say_unused(sizes))))
        return Cluster(self.name, self.title, self.device, levels, note)

    def with_servers_of(self, count: int) -> ClusterEntry:
        """The same cluster where a job takes ``count`` devices of each server, or rack that is one domain.

        Raises:
            PlanError: A server does not hold that many evenly, or there are none (a torus).
        """
        if self.is_even:
            raise PlanError(
                f"cluster '{self.name}' is a torus of devices: it has no servers to take a part of"
            )
        names = [level.name for level in self.levels]
        last = next((names.index(name) for name in _SERVERS if name in names), 0)
        inner = replace(self, levels=self.levels[: last + 1], trays=())
        whole = math.prod(level.size for level in inner.levels)
        if whole and not 1 <= count <= whole:
            raise PlanError(f"cluster '{self.name}/{count}': a {names[last]} holds 1 to {whole} devices")
        if count == whole:
            return self
        sizes = inner._filled(count)
        levels = tuple(replace(level, size=size) for level, size in zip(inner.levels, sizes, strict=True))
        used = f"{count} of {whole} devices of each {names[last]}"
        note = f"{used} are used. {self.note}".strip()
        outer = (
            replace(level, link=_share_ports(level.link, whole / count)) for level in self.levels[last + 1 :]
        )
        return replace(
            self,
            name=f"{self.name}/{count}",
            title=f"{self.title}, {used}",
            levels=(*levels, *outer),
            note=note,
            trays=(),
        )

    def say_unused(self, sizes: Sequence[int]) -> str:
        """What several parents of one level leave empty: '64 of 72 devices of each rack are used.'"""
        said = [
            f"{size} of {level.size} devices of each {level.name} are used."
            for index, (level, size) in enumerate(zip(self.levels, sizes, strict=True))
            if size < level.size and math.prod(sizes[index + 1 :]) > 1 and not self.is_even
        ]
        return " ".join(said)

    def _filled(self, num_devices: int) -> list[int]:
        """Inner levels are full before an outer one begins, or filled alike; the outermost takes the rest."""
        sizes = self._try_fill(num_devices)
        if sizes is not None:
            return sizes
        whole = math.prod(level.size or 1 for level in self.levels)
        if self.levels[-1].size and num_devices > whole:
            raise PlanError(f"cluster '{self.name}' of {num_devices} devices: it has at most {whole}")
        below = next(n for n in range(num_devices - 1, 0, -1) if self._try_fill(n) is not None)
        above = next(
            n for n in range(num_devices + 1, 2 * num_devices + whole) if self._try_fill(n) is not None
        )
        parts = " x ".join(f"{level.name} of {level.size}" for level in self.levels if level.size)
        raise PlanError(
            f"cluster '{self.name}' of {num_devices} devices: {parts} cannot be filled alike with that many; "
            f"take {below} or {above}, or write {self.name}/K:N for K devices of each"
        )

    def _try_fill(self, num_devices: int) -> list[int] | None:
        """Size of each level; None where they cannot hold that many alike."""
        sizes, left = [], num_devices
        for level, tray in zip(self.levels, self.trays or (0,) * len(self.levels), strict=True):
            size = min(left, level.size) if level.size else left
            if left % size:
                size = _fill_in_trays(left, size, tray)
            if not size:
                return None
            sizes.append(size)
            left //= size
        return sizes if left == 1 else None


def load_cluster(name: str) -> Cluster:
    """A cluster of the catalog by name or alias, or of a ``.toml`` file, with ``:N`` for its devices.

    ``NAME/K:N`` takes K devices of each server, or of each rack whose devices are one domain.

    >>> load_cluster("dgx-h100:64").num_devices
    64
    >>> [level.size for level in load_cluster("gb200-nvl72/36:72").levels]
    [36, 2]

    Raises:
        UnknownNameError: Not in the catalog; lists close names.
        CatalogError: The file does not describe exactly one cluster, or a figure fails its checks.
        PlanError: A number of devices that the cluster cannot have.
    """
    stem, colon, count = name.rpartition(":")
    if not colon:
        return load_cluster_entry(name).of_size()
    if not re.fullmatch(r"[0-9]{1,60}", count):
        raise PlanError(f"cluster {excerpt(name)}: {excerpt(count)} is not a number of devices; write NAME:N")
    number = read_whole(f"cluster {excerpt(name)}: devices", count, DEVICES, PlanError)
    return load_cluster_entry(stem).of_size(number)


def whole_name(name: str) -> str:
    """A cluster's name without part and number of its devices: what has a price, or is a file.

    >>> whole_name("gb200-nvl72/36:72")
    'gb200-nvl72'
    """
    return re.sub(r"(/\d+)?(:\d+)?$", "", name)


def load_cluster_entry(name: str) -> ClusterEntry:
    """Like ``load_cluster``, before the number of devices is known, with the source of every figure."""
    whole, slash, part = name.rpartition("/")
    if slash and re.fullmatch(r"[0-9]{1,60}", part):
        number = read_whole(f"cluster {excerpt(name)}: devices of each", part, DEVICES, PlanError)
        return load_cluster_entry(whole).with_servers_of(number)
    if name.endswith(".toml"):
        entries = parse_cluster_file(Path(name))
        if len(entries) != 1:
            raise CatalogError(f"{name}: expected one cluster under [clusters], found {len(entries)}")
        return next(iter(entries.values()))
    known = load_cluster_entries()
    hint = "See 'perfcast catalog clusters'; a path ending in .toml names a file of your own."
    return known[resolve_name("cluster", name, known, _aliases(), hint)]


@cache
def load_cluster_entries() -> Mapping[str, ClusterEntry]:
    """All clusters of the catalog, checked, in the order of the files."""
    return load_entries("clusters", "cluster", parse_cluster_file)


@cache
def _aliases() -> Mapping[str, str]:
    return collect_aliases({key: entry.aliases for key, entry in load_cluster_entries().items()})


def parse_cluster_file(path: Path) -> dict[str, ClusterEntry]:
    """All clusters of one data file.

    Raises:
        CatalogError: Names file, cluster, level and figure at fault.
    """
    return parse_entries(path, "clusters", _parse_cluster)


def _parse_cluster(
    name: str, table: Mapping[str, Any], sources: Mapping[str, str], where: str
) -> ClusterEntry:
    problems = Problems()
    with problems.gathered():
        _check_keys(table, _CLUSTER_KEYS, ("title", "device", "levels"), where)
    device = find_device_name(str(table["device"])) if "device" in table else ""
    if device is None:
        problems.note(f"{where}: unknown device {excerpt(table['device'])}; see 'perfcast catalog devices'")
    most_devices = _MOST_DEVICES
    with problems.gathered():
        most_devices = _parse_most(table, where)
    rows = table.get("levels", [{}])
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        problems.note(f"{where}: levels must be a list of tables, from the devices outwards")
        rows = []
    aliases = tuple[str, ...]()
    with problems.gathered():
        aliases = parse_texts(table, "aliases", where)
    levels, figures = [], dict[str, Figure]()
    for index, row in enumerate(rows if "levels" in table else []):
        with problems.gathered():
            level, mine = _parse_level(row, sources, f"{where}.levels[{index}]")
            if level.size == 0 and index < len(rows) - 1 and not table.get("even"):
                raise CatalogError(f"{where}.levels[{index}]: only the outermost level may be without size")
            levels.append(level)
            figures |= {f"{level.name}.{key}": figure for key, figure in mine.items()}
    if len({level.name for level in levels}) < len(levels):
        problems.note(f"{where}: two levels have one name")
    problems.check()
    assert device is not None
    return ClusterEntry(
        name=name,
        title=str(table["title"]),
        device=device,
        levels=tuple(levels),
        is_even=bool(table.get("even", False)),
        aliases=aliases,
        figures=MappingProxyType(figures),
        note=str(table.get("note", "")),
        trays=tuple(row.get("tray", 0) for row in rows),
        most_devices=most_devices,
    )


def _parse_most(table: Mapping[str, Any], where: str) -> int:
    most = table.get("most_devices", _MOST_DEVICES)
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= _MOST_DEVICES:
        raise CatalogError(f"{where}.most_devices: {excerpt(most)} is not a number of devices")
    return most


def _parse_level(
    row: Mapping[str, Any], sources: Mapping[str, str], where: str
) -> tuple[Level, dict[str, Figure]]:
    problems = Problems()
    with problems.gathered():
        _check_keys(row, _LEVEL_KEYS, ("name", "kind", "latency", "bandwidth"), where)
    for flag in _FLAGS:
        if not isinstance(row.get(flag, True), bool):
            problems.note(f"{where}.{flag}: {excerpt(row[flag])} is neither true nor false")
    figures = dict[str, Figure]()
    for key in ("latency", "bandwidth", "port_bandwidth", "oversubscription"):
        with problems.gathered():
            if key in row:
                figures[key] = parse_figure(row[key], sources, f"{where}.{key}")
    size = 0
    with problems.gathered():
        size = _parse_size(row, where)
    problems.check()
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


def _parse_size(row: Mapping[str, Any], where: str) -> int:
    """Children of the level, 0 where the number of devices says it."""
    size = row.get("size", 0)
    if isinstance(size, bool) or not isinstance(size, int) or size < 0 or ("size" in row and size < 1):
        raise CatalogError(f"{where}.size: {excerpt(size)} is not a positive number of children")
    tray = row.get("tray", 1)
    if isinstance(tray, bool) or not isinstance(tray, int) or tray < 1 or (size and size % tray):
        raise CatalogError(f"{where}.tray: {excerpt(tray)} is no whole part of {size} children")
    return size


def _parse_rings(rows: Any, size: int, sources: Mapping[str, str], where: str) -> list[Figure]:
    if not isinstance(rows, list) or (rows and len(rows) != size - 1):
        raise CatalogError(f"{where}: expected one figure for each group of 2 … {size} members")
    return [parse_figure(row, sources, f"{where}[{index}]") for index, row in enumerate(rows)]


def _check_keys(table: Mapping[str, Any], known: Sequence[str], required: Sequence[str], where: str) -> None:
    problems = Problems()
    for key in required:
        if key not in table:
            problems.note(f"{where}: {key} missing")
    for key in table:
        if key not in known:
            problems.note(f"{where}: unknown key {excerpt(key)}; known: {', '.join(known)}")
    problems.check()


def _check_plausible(link: Link, where: str) -> None:
    if link.bytes_per_second > _MOST_BYTES_PER_SECOND:
        raise CatalogError(f"{where}.bandwidth: {link.bytes_per_second:.3g} bytes per second of one device")
    if 0 < link.port_bytes_per_second < link.bytes_per_second:
        raise CatalogError(f"{where}.port_bandwidth: less than bandwidth, a device's share of all ports")
    if link.latency_seconds > _MOST_LATENCY_SECONDS:
        raise CatalogError(f"{where}.latency: {link.latency_seconds:g} s, more than a second")
    if link.oversubscription < 1:
        raise CatalogError(f"{where}.oversubscription: {link.oversubscription:g} is less than 1 (none)")


def _share_ports(link: Link, times: float) -> Link:
    """The link where a device shares its node's ports with so many times fewer; its own port is no faster."""
    most = link.port_bytes_per_second
    return replace(link, bytes_per_second=min(most, link.bytes_per_second * times)) if most else link


def _fill_in_trays(count: int, size: int, tray: int) -> int:
    """Children of each parent where the fewest parents share ``count`` alike in whole trays; 0: they cannot.

    Parents less than half full are not what anybody runs: the next number of devices is what was meant.

    >>> _fill_in_trays(128, 72, 4), _fill_in_trays(100, 72, 4)
    (64, 0)
    """
    if not tray:
        return 0
    fewest = -(-count // size)
    for parents in range(fewest, 2 * count // size + 1):
        if count % (parents * tray) == 0:
            return count // parents
    return 0


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
