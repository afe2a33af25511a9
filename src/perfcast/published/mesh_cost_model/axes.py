"""A mesh whose axes have a line each: what a collective along an axis costs, and which axes a group spans.

The page profiles all-reduce alone. A collective that was not profiled is taken from all-reduce by what a ring
sends of the message S over n ranks (Patarasuk and Yuan, JPDC 2009): all-reduce 2 (n - 1) / n · S in
2 (n - 1) steps; all-gather, reduce-scatter and all-to-all half of both; broadcast and reduce as much as half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from perfcast.cost.cluster_profile import AxisProfile, ClusterProfile
from perfcast.cost.collective_fit.affine import fit_affine
from perfcast.cost.fit_quality import spread_of_fit
from perfcast.errors import CalibrationError, PlanError
from perfcast.measure.mesh_discovery.found import DiscoveredAxis, DiscoveredMesh
from perfcast.published.comparison import print_part

ALL_REDUCE = "all_reduce"
#: Of an all-reduce's messages and steps, what a ring of another collective takes.
_OF_ALL_REDUCE = {
    "all_gather": 0.5,
    "reduce_scatter": 0.5,
    "all_to_all": 0.5,
    "broadcast": 0.5,
    "reduce": 0.5,
}
_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class AxisLine:
    """seconds = latency + bytes / bandwidth, and how far measured times are from it.

    Attributes:
        r_squared: Of the logarithms of time; None where the line was not fitted to a profile.
        mape: Mean absolute relative error of the line; of a discovered axis what its interval says.
    """

    latency_seconds: float
    bytes_per_second: float
    r_squared: float | None = None
    mape: float = 0.0

    def seconds(self, num_bytes: float) -> float:
        """Of a message of so many bytes."""
        return self.latency_seconds + num_bytes / self.bytes_per_second

    def to_json(self) -> dict[str, float | None]:
        """A plain dictionary; a rate without bound becomes null."""
        rate = self.bytes_per_second if math.isfinite(self.bytes_per_second) else None
        return {**asdict(self), "bytes_per_second": rate}

    @property
    def spread(self) -> float:
        """Factor from an estimate to either end of its interval."""
        return spread_of_fit(self.mape)


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """Devices along one axis, and its lines by collective."""

    name: str
    size: int
    lines: Mapping[str, AxisLine] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        lines = {collective: line.to_json() for collective, line in self.lines.items()}
        return {"name": self.name, "size": self.size, "lines": lines}

    def line(self, collective: str) -> AxisLine:
        """The line of a collective: as profiled, or by what a ring sends of an all-reduce.

        Raises:
            PlanError: Neither was profiled.
        """
        if collective in self.lines:
            return self.lines[collective]
        if collective not in _OF_ALL_REDUCE or ALL_REDUCE not in self.lines:
            known = ", ".join(self.lines) or "nothing"
            raise PlanError(f"{collective} along '{self.name}' was not profiled; profiled: {known}")
        whole, part = self.lines[ALL_REDUCE], _OF_ALL_REDUCE[collective]
        return AxisLine(
            whole.latency_seconds * part, whole.bytes_per_second / part, whole.r_squared, whole.mape
        )


@dataclass(frozen=True, slots=True)
class Mesh:
    """Axes, the first varying slowest, and the ranks in row-major order."""

    axes: tuple[MeshAxis, ...]
    ranks: tuple[int, ...] = ()

    @property
    def num_ranks(self) -> int:
        """Places."""
        return math.prod(axis.size for axis in self.axes)

    def spanned(self, group: Sequence[int]) -> tuple[MeshAxis, ...]:
        """The axes along which the ranks of a group differ, outermost first.

        Raises:
            PlanError: A rank that is not in the mesh, or a group that is not all ranks along some axes.
        """
        order = self.ranks or tuple(range(self.num_ranks))
        outside = [rank for rank in group if rank not in order]
        if outside:
            raise PlanError(f"rank {outside[0]} is not one of the mesh's {self.num_ranks}")
        shape = tuple(axis.size for axis in self.axes)
        places = np.stack(np.unravel_index([order.index(rank) for rank in group], shape), axis=1)
        differs = (places != places[0]).any(axis=0)
        spanned = tuple(axis for axis, does in zip(self.axes, differs, strict=True) if does)
        if math.prod(axis.size for axis in spanned) != len(set(group)):
            axes = ", ".join(f"{axis.name}={axis.size}" for axis in self.axes)
            raise PlanError(
                f"ranks {', '.join(map(str, group))} are no group along the axes of the mesh {axes}"
            )
        return spanned

    def seconds(self, collective: str, num_bytes: float, group: Sequence[int]) -> list[AxisTime]:
        """What a collective of the full buffer costs on each axis that its group spans.

        Along one axis its line. Along several as a hierarchy sends it: an axis sees the share of the message
        that the axes inside it leave (all-reduce: 1 / their ranks, reduced inside first and gathered after).

        Raises:
            PlanError: As ``spanned`` and ``MeshAxis.line``.
        """
        axes = self.spanned(group)
        found = []
        for place, axis in enumerate(axes):
            inside = math.prod(inner.size for inner in axes[place + 1 :])
            share = 1 if collective in ("all_to_all", "broadcast", "reduce") else inside
            line = axis.line(collective)
            found.append(AxisTime(axis.name, line.seconds(num_bytes / share), line.spread))
        return found


@dataclass(frozen=True, slots=True)
class AxisTime:
    """Seconds of a collective on an axis, and the factor to either end of its interval."""

    axis: str
    seconds: float
    spread: float


def fit_axis(name: str, size: int, sizes_bytes: Sequence[float], seconds: Sequence[float]) -> MeshAxis:
    """Linear regression over the all-reduces profiled along one axis.

    Raises:
        CalibrationError: Times that fall as messages grow.
    """
    line = fit_affine(np.asarray(sizes_bytes, dtype=np.float64), np.asarray(seconds, dtype=np.float64))
    return MeshAxis(name, size, {ALL_REDUCE: AxisLine(line.latency_seconds, line.bytes_per_second)})


def profiled_mesh(profile: ClusterProfile) -> Mesh:
    """The predefined mesh of a profile, each axis with the line of every collective measured along it.

    Raises:
        CalibrationError: An axis of several ranks without a line.
    """
    return Mesh(tuple(_profiled_axis(axis) for axis in profile.axes))


def _profiled_axis(axis: AxisProfile) -> MeshAxis:
    lines = {
        name: AxisLine(
            curve.line.latency_seconds, curve.line.bytes_per_second, curve.line.r_squared, curve.line.mape
        )
        for name, curve in axis.curves.items()
        if curve.line is not None
    }
    if axis.size > 1 and not lines:
        raise CalibrationError(f"the axis '{axis.name}' has no line; measure the profile again")
    return MeshAxis(axis.name, axis.size, lines)


def discovered_mesh(found: DiscoveredMesh) -> Mesh:
    """The axes of a discovered mesh, outermost first.

    A ring of n sends 2 (n - 1) messages of 1 / n one after the other over the axis's links.

    Raises:
        PlanError: Groups that differ in size, which have no axes; an axis of which no pair was measured.
    """
    if not found.shape or len(found.ranks) != found.num_ranks:
        raise PlanError(
            "the discovered groups differ in size or lack a rank: no axis joins equal numbers of devices"
        )
    return Mesh(
        tuple(_discovered_axis(size, axis) for size, axis in zip(found.shape, found.axes, strict=True)),
        found.ranks,
    )


def _discovered_axis(size: int, axis: DiscoveredAxis) -> MeshAxis:
    if not axis.num_pairs:
        raise PlanError(f"no pair was measured along {axis.name}")
    steps = 2 * (size - 1)
    latency = steps * axis.latency_seconds
    rate = axis.bytes_per_second * size / steps
    off = max(
        axis.latency_high_seconds / axis.latency_seconds, axis.high_bytes_per_second / axis.bytes_per_second
    )
    mape = max(axis.spread, (off - 1) / _NORMAL_95)
    return MeshAxis(axis.name, size, {ALL_REDUCE: AxisLine(latency, rate, None, mape)})


if __name__ == "__main__":
    print_part("mesh_cost_model.axes", "mesh_cost_model")
