"""Dragonfly: groups of routers, all joined within a group, and every two groups joined by some link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.fabrics.interface import Site
from perfcast.simulate.network.limits import LINKS
from perfcast.simulate.network.topology import Wiring

#: A way over two global links is longer than one with a single global link and a local one at either end.
GLOBAL_COST = 3


@dataclass(frozen=True, slots=True)
class Dragonfly:
    """After Kim, Dally, Scott, Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008.

    All ports run at the rate of a device's link. Group ``i`` reaches group ``i + d`` by its global ports
    ``d - 1``, ``d - 1 + (groups - 1)`` …: as many links for every two groups, ports left over stay empty.

    Attributes:
        devices_per_router, routers_per_group, global_links_per_router: p, a and h of the paper (balanced:
            a = 2 p = 2 h).
        local_seconds, global_seconds: Latency of links between routers; the latency of the cluster's link
            lies on the devices' own links, half on either end.
    """

    devices_per_router: int
    routers_per_group: int
    global_links_per_router: int
    local_seconds: float = 0.0
    global_seconds: float = 0.0

    def wire(self, wiring: Wiring, site: Site) -> Integers:
        """See ``Fabric``; higher levels are joined to all routers.

        Raises:
            PlanError: More groups than a group has global links for.
        """
        devices, rate = site.devices.ravel(), site.link.bytes_per_second
        group_size = self.devices_per_router * self.routers_per_group
        num_groups = -(-devices.size // group_size)
        global_ports = self.routers_per_group * self.global_links_per_router
        if num_groups > global_ports + 1:
            raise PlanError(
                f"{num_groups} groups of {group_size} devices need {num_groups - 1} global links each; "
                f"they have {global_ports}"
            )
        pairs = num_groups * self.routers_per_group * (self.routers_per_group - 1) // 2
        LINKS.check("links of the dragonfly:", 2 * (pairs + num_groups * global_ports), PlanError)
        routers = wiring.add_switches(f"{site.prefix}router", num_groups * self.routers_per_group)
        hosts = routers[np.arange(devices.size) // self.devices_per_router]
        wiring.attach(site.plane, devices, hosts, site.link, site.link.latency_seconds / 2)
        groups = routers.reshape(num_groups, self.routers_per_group)
        low, high = np.triu_indices(self.routers_per_group, 1)
        wiring.connect(groups[:, low].ravel(), groups[:, high].ravel(), rate, self.local_seconds)
        if num_groups > 1:
            self._connect_groups(wiring, groups, global_ports // (num_groups - 1), rate)
        wiring.detours.append(routers)
        return routers

    def _connect_groups(self, wiring: Wiring, groups: Integers, num_parallel: int, rate: float) -> None:
        """``num_parallel`` links between every two groups."""
        num_groups = len(groups)
        low, high = np.triu_indices(num_groups, 1)
        for parallel in range(num_parallel):
            offset = parallel * (num_groups - 1)
            near = (offset + (high - low) - 1) // self.global_links_per_router
            far = (offset + (low - high) % num_groups - 1) // self.global_links_per_router
            wiring.connect(groups[low, near], groups[high, far], rate, self.global_seconds, cost=GLOBAL_COST)
