"""The mesh that discovery found: frozen, and turned into a ``Cluster`` and ``DeviceMesh`` where regular."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.machine.mesh import DeviceMesh
from perfcast.errors import PlanError
from perfcast.measure.mesh_discovery.faults import Misfit

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class DiscoveredAxis:
    """What pairs that differ in this axis (and meet no further out) measure.

    Attributes:
        size: Children of most groups that the axis divides.
        latency_seconds: Geometric mean over pairs, one way.
        latency_low_seconds, latency_high_seconds: 95 % interval of that mean.
        bytes_per_second: Geometric mean over pairs, one direction.
        low_bytes_per_second, high_bytes_per_second: 95 % interval of that mean.
        spread: Standard deviation between pairs, noise aside, as a part of the value (the larger of both).
        num_pairs: Pairs behind the figures; 0 leaves them NaN.
    """

    name: str
    size: int
    latency_seconds: float
    latency_low_seconds: float
    latency_high_seconds: float
    bytes_per_second: float
    low_bytes_per_second: float
    high_bytes_per_second: float
    spread: float
    num_pairs: int


def unmeasured_axis(name: str, size: int) -> DiscoveredAxis:
    """An axis of which only the size is known."""
    unknown = math.nan
    return DiscoveredAxis(name, size, unknown, unknown, unknown, unknown, unknown, unknown, unknown, 0)


@dataclass(frozen=True, slots=True)
class DiscoveredMesh:
    """A hierarchy of ranks, outer level first.

    Attributes:
        shape: Sizes of the axes, outer to inner; empty if groups of one level differ in size.
        ranks: Every placed rank in the mesh's order: row-major if there is a shape, and always such that
            each group is a run. Dead devices are left out where their place is not certain.
        groups: For every axis, the groups that it divides: ``groups[0]`` is one, of all ranks;
            ``groups[-1]`` are the innermost ones.
        confidence: How sure it is that groups and levels are right, from 0 to 1.
        doubts: Why it is not surer.
        num_measured_pairs, num_measurements: What it cost; the latter counts repeats.
    """

    num_ranks: int
    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    groups: tuple[Groups, ...]
    axes: tuple[DiscoveredAxis, ...]
    confidence: float
    doubts: tuple[str, ...] = ()
    misfits: tuple[Misfit, ...] = ()
    num_measured_pairs: int = 0
    num_measurements: int = 0

    def to_cluster(self, name: str = "discovered", device: str = "unknown") -> Cluster:
        """Levels from the devices outwards, with the measured figures.

        Raises:
            PlanError: Groups of one level differ in size, or a level was not measured.
        """
        if not self.shape or len(self.ranks) != self.num_ranks:
            raise PlanError(
                "the discovered groups differ in size or lack a dead device, and a cluster needs equal ones; "
                "leave out the ranks that are named as misfits and discover the rest"
            )
        if any(axis.num_pairs == 0 for axis in self.axes):
            raise PlanError("an axis has no measured pair, so that its link is not known; measure more pairs")
        levels = tuple(
            Level(axis.name, axis.size, Link("measured", axis.latency_seconds, axis.bytes_per_second))
            for axis in reversed(self.axes)
        )
        note = f"from {self.num_measured_pairs} measured pairs, confidence {self.confidence:.3f}"
        return Cluster(name, "Discovered from pairs", device, levels, note)

    def to_device_mesh(self, device: str = "unknown") -> DeviceMesh:
        """Axes as discovered, outer first; the ranks in the mesh's order.

        Raises:
            PlanError: As ``to_cluster``.
        """
        cluster = self.to_cluster(device=device)
        return DeviceMesh(cluster, tuple(axis.name for axis in self.axes), self.shape, self.ranks)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Place of a rank along each axis of a regular mesh, outer first.

        Raises:
            PlanError: There is no shape, or the rank has no place.
        """
        if not self.shape or rank not in self.ranks:
            raise PlanError(
                f"rank {rank} has no coordinates: the mesh is irregular, or the rank is not in it"
            )
        place, found = self.ranks.index(rank), []
        for size in reversed(self.shape):
            place, coordinate = divmod(place, size)
            found.append(coordinate)
        return tuple(reversed(found))

    def to_json(self) -> dict[str, Any]:
        """All fields; figures that are not known are null."""
        record = asdict(self)
        return {"format": "perfcast-discovered-mesh", "version": 1, **_without_nan(record)}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
