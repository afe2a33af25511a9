"""Tori: every router is joined to two neighbours along each dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.fabrics.interface import Site
from perfcast.simulate.network.topology import Wiring


@dataclass(frozen=True, slots=True)
class Torus:
    """Routers in row-major order of ``shape``, each with an equal share of the site's devices.

    The rate of a router's devices is divided evenly over its links to neighbours, in each direction; a
    dimension of two has one link, of one none. The latency of the cluster's link is that of one hop.
    """

    shape: tuple[int, ...]

    def wire(self, wiring: Wiring, site: Site) -> Integers:
        """See ``Fabric``; higher levels are joined to all routers.

        Raises:
            PlanError: A shape that does not divide the site's devices.
        """
        num_routers, devices, link = math.prod(self.shape), site.devices.ravel(), site.link
        if num_routers < 1 or min(self.shape) < 1 or devices.size % num_routers:
            text = " × ".join(map(str, self.shape))
            raise PlanError(f"a torus of {text} routers does not divide {devices.size} devices evenly")
        share = devices.size // num_routers
        routers = wiring.add_switches(f"{site.prefix}router", num_routers)
        wiring.attach(site.plane, devices, np.repeat(routers, share), link, 0.0)
        degree = sum(min(size, 3) - 1 for size in self.shape)
        for dim, size in enumerate(self.shape):
            if size == 1:
                continue
            grid = routers.reshape(self.shape)
            ahead = np.roll(grid, -1, axis=dim)
            if size == 2:
                grid, ahead = grid.take([0], axis=dim), ahead.take([0], axis=dim)
            rate = share * link.bytes_per_second / degree
            wiring.connect(grid.ravel(), ahead.ravel(), rate, link.latency_seconds, link.is_duplex)
        return routers
