"""One collective on some axes of a mesh, over message sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perfcast.core.arrays import Floats
from perfcast.core.collective import bus_factor
from perfcast.core.machine.mesh import DeviceMesh
from perfcast.cost.collective.datasheet import CollectiveTimes, price_collectives
from perfcast.cost.collective.table import collective_table
from perfcast.errors import PlanError
from perfcast.ranges import Range


@dataclass(frozen=True, eq=False)
class CollectiveSweep:
    """k message sizes; arrays of shape [k].

    Attributes:
        span: Of the group on each level of the cluster.
        concurrent_groups: Groups of the axes that are active at once.
        bus_factor: Bus bandwidth times seconds over message bytes.
    """

    collective: str
    axes: tuple[str, ...]
    group_size: int
    span: tuple[int, ...]
    concurrent_groups: int
    bus_factor: float
    message_bytes: Floats
    times: CollectiveTimes

    @property
    def bus_bytes_per_second(self) -> Floats:
        """What nccl-tests call bus bandwidth; 0 for a group of one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = self.message_bytes * self.bus_factor / self.times.seconds
        return np.where(self.times.seconds > 0, rate, 0.0)


def sweep_sizes(
    mesh: DeviceMesh,
    axes: Sequence[str],
    collective: str,
    message_bytes: ArrayLike,
    *,
    algorithm: str = "nccl",
    concurrent_groups: int | None = None,
) -> CollectiveSweep:
    """Price a collective over the joint group of some axes.

    Args:
        concurrent_groups: All groups of the axes by default, as in training.

    Raises:
        UnknownNameError: No such axis, collective or algorithm.
        PlanError: A group that fills a level of the cluster unevenly; more groups than there are.
    """
    group = mesh.group(tuple(axes))
    span = mesh.cluster.span(group)
    most = mesh.cluster.num_devices // len(group)
    groups = most if concurrent_groups is None else concurrent_groups
    Range(1, most, f"{mesh.cluster.num_devices} devices make so many groups of {len(group)}").check(
        "--groups", groups, PlanError
    )
    table = collective_table(collective, message_bytes, [span], concurrent_groups=groups)
    return CollectiveSweep(
        collective=collective,
        axes=tuple(axes),
        group_size=len(group),
        span=span,
        concurrent_groups=groups,
        bus_factor=bus_factor(collective, len(group)),
        message_bytes=table.message_bytes,
        times=price_collectives(mesh.cluster, table, algorithm),
    )
