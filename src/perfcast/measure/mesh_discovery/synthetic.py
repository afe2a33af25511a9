"""Made-up clusters whose mesh is known: to test discovery, and to show it without a cluster.

What is assumed of them: two to four levels; from one level to the next latency or bandwidth is worse by
``least_ratio`` (1.5) to 8 times, and the other by 1 to 8 times; every measurement is multiplied by lognormal
noise that is new each time; ranks are numbered at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.measure.mesh_discovery.found import DiscoveredMesh

#: Faults that a made-up cluster may have.
FAULTS = ("none", "slow_device", "slow_group", "dead_device", "unequal_groups")
_MOST_RATIO = 8.0
_SLOWEST = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticCluster:
    """A cluster with one fault or none.

    Attributes:
        shape: Sizes of the axes, outer to inner, before a fault.
        places: ``(n, L)``: for every rank the group it belongs to on each level, inner first; ranks that
            share the group of level l meet at level l or below.
        latency_seconds: ``(L,)``, inner first.
        bytes_per_second: ``(L,)``, inner first.
        noise: Standard deviation of the logarithm of a measurement.
        fault: One of ``FAULTS``.
        faulty: Ranks of the dead or slow device, or of the group with the slow link or too few devices.
        faulty_level: Level of the slow link: 0 for a device's own.
        slowdown: How much less bandwidth the slow link has; 1 where there is none.
        slow_latency_seconds: What the slow link adds.
    """

    shape: tuple[int, ...]
    places: np.ndarray
    latency_seconds: Floats
    bytes_per_second: Floats
    noise: float
    fault: str = "none"
    faulty: tuple[int, ...] = ()
    faulty_level: int = 0
    slowdown: float = 1.0
    slow_latency_seconds: float = 0.0

    @property
    def num_ranks(self) -> int:
        """Ranks, dead ones included."""
        return len(self.places)

    def measure(self, draw: np.random.Generator, pairs: Integers) -> tuple[Floats, Floats]:
        """One noisy measurement of each pair: seconds, bytes per second; NaN where a device is dead."""
        same = self.places[pairs[:, 0]] == self.places[pairs[:, 1]]
        level = same.argmax(axis=1)
        latency, rate = self.latency_seconds[level], self.bytes_per_second[level]
        inside = np.isin(pairs, self.faulty)
        crossing = inside[:, 0] != inside[:, 1]
        if self.fault in ("slow_device", "slow_group"):
            limit = self.bytes_per_second[self.faulty_level] / self.slowdown
            rate = np.where(crossing, np.minimum(rate, limit), rate)
            latency = latency + np.where(crossing, self.slow_latency_seconds, 0.0)
        if self.fault == "dead_device":
            latency = np.where(inside.any(axis=1), np.nan, latency)
        noise = np.exp(draw.normal(0.0, self.noise, (2, len(pairs))))
        return latency * noise[0], rate * noise[1]


def make_cluster(
    num_ranks: int,
    draw: np.random.Generator,
    *,
    num_levels: int | None = None,
    fault: str = "none",
    noise: float = 0.1,
    least_ratio: float = 1.5,
    most_ratio: float = _MOST_RATIO,
) -> SyntheticCluster:
    """A cluster of ``num_ranks`` devices, of a shape drawn at random; unequal groups have fewer."""
    shape = _random_shape(num_ranks, num_levels, fault, draw)
    count, levels = math.prod(shape), len(shape)
    places = np.stack([np.arange(count) // math.prod(shape[levels - 1 - k :]) for k in range(levels)], axis=1)
    latency, rate = _random_levels(levels, least_ratio, most_ratio, draw)
    cluster = SyntheticCluster(shape, places, latency, rate, noise)
    if fault == "unequal_groups":
        cluster = _with_unequal_groups(cluster, draw)
    elif fault != "none":
        cluster = _with_fault(cluster, fault, draw)
    order = draw.permutation(cluster.num_ranks)
    places = np.empty_like(cluster.places)
    places[order] = cluster.places
    faulty = tuple(sorted(order[list(cluster.faulty)].tolist()))
    return replace(cluster, places=places, faulty=faulty)


def _random_shape(
    num_ranks: int, num_levels: int | None, fault: str, draw: np.random.Generator
) -> tuple[int, ...]:
    """An ordered factorisation at random; the innermost axis is 16 at most where that is possible."""
    least = 3 if fault in ("slow_device", "dead_device", "slow_group") else 2
    shapes = [
        shape
        for levels in ((num_levels,) if num_levels else (2, 3, 4))
        for shape in _factorisations(num_ranks, levels)
        if fault == "none" or min(shape[-1], shape[-2]) >= least
    ]
    usual = [shape for shape in shapes if shape[-1] <= 16] or shapes
    if not usual:
        raise ValueError(f"{num_ranks} ranks have no shape with {num_levels} levels and a fault '{fault}'")
    levels = sorted({len(shape) for shape in usual})
    chosen = levels[draw.integers(len(levels))]
    usual = [shape for shape in usual if len(shape) == chosen]
    return usual[draw.integers(len(usual))]


def _factorisations(number: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(number,)] if number > 1 else []
    return [
        (size, *rest)
        for size in range(2, number // 2 + 1)
        if number % size == 0
        for rest in _factorisations(number // size, parts - 1)
    ]


def _random_levels(
    levels: int, least: float, most: float, draw: np.random.Generator
) -> tuple[Floats, Floats]:
    """Latency and bandwidth, inner first: one of them surely worse with each level, the other perhaps."""
    latency = [float(np.exp(draw.uniform(np.log(1e-6), np.log(2e-5))))]
    rate = [float(np.exp(draw.uniform(np.log(1e10), np.log(5e11))))]
    for _ in range(levels - 1):
        sure = np.exp(draw.uniform(np.log(least), np.log(most)))
        perhaps = np.exp(draw.uniform(0.0, np.log(most)))
        ratios = (sure, perhaps) if draw.random() < 0.5 else (perhaps, sure)
        latency.append(latency[-1] * ratios[0])
        rate.append(rate[-1] / ratios[1])
    return np.array(latency), np.array(rate)


def _with_unequal_groups(cluster: SyntheticCluster, draw: np.random.Generator) -> SyntheticCluster:
    """One innermost group loses one device or more, but keeps one."""
    size = cluster.shape[-1]
    group = int(draw.integers(cluster.num_ranks // size))
    lost = np.arange(group * size, group * size + int(draw.integers(1, size)))
    places = np.delete(cluster.places, lost, axis=0)
    faulty = tuple(np.flatnonzero(places[:, 0] == group).tolist())
    return replace(cluster, places=places, fault="unequal_groups", faulty=faulty)


def _with_fault(cluster: SyntheticCluster, fault: str, draw: np.random.Generator) -> SyntheticCluster:
    """A dead device, a device with a slow link, or a lowest group with one."""
    rank = int(draw.integers(cluster.num_ranks))
    level = 1 if fault == "slow_group" else 0
    faulty = np.flatnonzero(cluster.places[:, 0] == cluster.places[rank, 0]) if level else np.array([rank])
    slowdown = float(np.exp(draw.uniform(np.log(3.0), np.log(_SLOWEST))))
    waits = draw.random() < 0.5
    return replace(
        cluster,
        fault=fault,
        faulty=tuple(faulty.tolist()),
        faulty_level=level,
        slowdown=slowdown,
        slow_latency_seconds=float(cluster.latency_seconds[level]) * (slowdown - 1) if waits else 0.0,
    )


def is_right(cluster: SyntheticCluster, mesh: DiscoveredMesh) -> bool:
    """Whether levels and groups are the true ones; a dead device may be placed or left out."""
    if len(mesh.groups) != cluster.places.shape[1]:
        return False
    dead = set(cluster.faulty) if cluster.fault == "dead_device" else set()
    for groups, row in zip(reversed(mesh.groups), cluster.places.T, strict=True):
        true: dict[int, set[int]] = {}
        for rank, group in enumerate(row.tolist()):
            true.setdefault(group, set()).add(rank)
        found = {frozenset(set(group) - dead) for group in groups}
        if found - {frozenset()} != {frozenset(group - dead) for group in true.values()} - {frozenset()}:
            return False
    return True


def is_named(cluster: SyntheticCluster, mesh: DiscoveredMesh) -> bool:
    """Whether the fault is named with its ranks, and nothing is called slow or dead that is not."""
    kinds = {
        "none": None,
        "slow_device": "slow_link",
        "slow_group": "slow_link",
        "dead_device": "dead_device",
        "unequal_groups": "unequal_group",
    }
    kind = kinds[cluster.fault]
    named = {(misfit.kind, misfit.ranks) for misfit in mesh.misfits}
    if kind is None:
        return not named
    false = {name for name in named if name[0] != "unequal_group"} - {(kind, cluster.faulty)}
    return (kind, cluster.faulty) in named and not false
