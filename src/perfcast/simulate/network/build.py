"""A cluster and a fabric → a topology."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.machine.cluster import Cluster, Level
from perfcast.errors import PlanError
from perfcast.simulate.network.fabrics.interface import Fabric, Site
from perfcast.simulate.network.fabrics.star import Star
from perfcast.simulate.network.fabrics.torus import Torus
from perfcast.simulate.network.topology import Topology, Wiring


def build_topology(cluster: Cluster, fabric: Fabric | None = None, inner: Fabric | None = None) -> Topology:
    """Wire up a cluster.

    Args:
        cluster: Its first level is the unit; its second is what ``fabric`` joins; each level above is one
            switch that the tops of the level below hang on, with the rate of all devices below over the
            oversubscription, half of its latency on either side.
        fabric: Of the second level, or of the only one; none: an ideal switch (``Star``).
        inner: Of the first level of a cluster of several; none: an ideal switch where the level is
            switched, else a ring (``Torus`` of one dimension).

    Raises:
        PlanError: A fabric that the devices do not fit into, or an ``inner`` one where there is one level.
    """
    levels, num_devices = cluster.levels, cluster.num_devices
    if inner is not None and len(levels) == 1:
        raise PlanError(f"cluster '{cluster.name}' has one level: give its fabric as the fabric")
    wiring = Wiring(num_devices, min(len(levels), 2))
    unit_size = levels[0].size
    if len(levels) == 1:
        devices = np.arange(num_devices, dtype=np.int64).reshape(-1, 1)
        (fabric or usual(levels[0])).wire(wiring, Site(devices, levels[0].link, 0))
        return wiring.finish(cluster.name, unit_size)
    for unit in range(num_devices // unit_size):
        devices = np.arange(unit * unit_size, (unit + 1) * unit_size, dtype=np.int64).reshape(-1, 1)
        site = Site(devices, levels[0].link, 0, f"{levels[0].name} {unit} ")
        (inner or usual(levels[0])).wire(wiring, site)
    wire_outer_levels(wiring, levels, fabric or usual(levels[1]))
    return wiring.finish(cluster.name, unit_size)


def usual(level: Level) -> Fabric:
    """An ideal switch, or a ring where the level is not switched."""
    return Star() if level.link.is_switched else Torus((level.size,))


def wire_outer_levels(wiring: Wiring, levels: tuple[Level, ...], fabric: Fabric) -> None:
    """The second level of every site, then one switch for each higher group."""
    unit_size, site_size = levels[0].size, levels[0].size * levels[1].size
    num_sites = wiring.num_devices // site_size
    tops: list[Integers] = []
    for number in range(num_sites):
        devices = np.arange(number * site_size, (number + 1) * site_size, dtype=np.int64)
        prefix = f"{levels[1].name} {number} " if num_sites > 1 else ""
        tops.append(fabric.wire(wiring, Site(devices.reshape(-1, unit_size), levels[1].link, 1, prefix)))
    below = site_size
    for level in levels[2:]:
        tops = join_sites(wiring, level, tops, below)
        below *= level.size


def join_sites(wiring: Wiring, level: Level, tops: list[Integers], devices_below: int) -> list[Integers]:
    """One switch over every ``level.size`` sites; returns the new tops.

    Raises:
        PlanError: Sites without a top to be joined to.
    """
    if not all(len(top) for top in tops):
        raise PlanError(f"the level '{level.name}' cannot be joined to a fabric without spines")
    link, joined = level.link, []
    for first in range(0, len(tops), level.size):
        center = wiring.add_switches(level.name, 1)
        for top in tops[first : first + level.size]:
            rate = devices_below * link.bytes_per_second / (link.oversubscription * len(top))
            heads = np.repeat(center, len(top))
            wiring.connect(top, heads, rate, link.latency_seconds / 2, link.is_duplex)
        joined.append(center)
    return joined
