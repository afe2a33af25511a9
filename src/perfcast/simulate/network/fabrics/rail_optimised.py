"""Rail-optimised fabrics: the devices of the same place in their units share leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.arrays import ints
from perfcast.simulate.network.fabrics.fat_tree import join_leaves, ports_down, tier_ratios
from perfcast.simulate.network.fabrics.interface import Site
from perfcast.simulate.network.topology import Wiring


@dataclass(frozen=True, slots=True)
class RailOptimised:
    """A leaf per rail for each block of units, then spines as in a fat tree.

    Attributes:
        radix, oversubscription, hop_seconds: As of ``FatTree``; a block has as many units as a leaf has
            ports down.
        has_spines: Without spines each rail is one leaf, which takes all its ports for devices, and rails
            do not meet.
        has_relays: A message to another rail first goes inside its unit to the device of that rail (PXN in
            NCCL), so that it meets no spine within a block.
    """

    radix: int
    oversubscription: tuple[float, ...] = ()
    hop_seconds: float = 0.0
    has_spines: bool = True
    has_relays: bool = True

    def wire(self, wiring: Wiring, site: Site) -> Integers:
        """See ``Fabric``.

        Raises:
            PlanError: More units than a leaf's ports where there are no spines; relays without a first plane.
        """
        num_units, num_rails = site.devices.shape
        if self.has_relays and site.plane == 0 and num_rails > 1:
            raise PlanError("relays need a link inside the unit: a cluster of two levels")
        ratios = tier_ratios(self.oversubscription, site)
        down = ports_down(self.radix, ratios[0]) if self.has_spines else self.radix
        if not self.has_spines and num_units > down:
            raise PlanError(f"{num_units} units do not fit {down} ports of a rail without spines")
        blocks = np.arange(num_units) // down
        leaves = wiring.add_switches(f"{site.prefix}leaf", (int(blocks[-1]) + 1) * num_rails)
        places = blocks[:, None] * num_rails + np.arange(num_rails)[None, :]
        half_seconds = site.link.latency_seconds / 2
        wiring.attach(site.plane, site.devices.ravel(), leaves[places.ravel()], site.link, half_seconds)
        wiring.has_relays |= self.has_relays
        if not self.has_spines:
            return ints([])
        return join_leaves(wiring, site, leaves, self.radix, ratios, self.hop_seconds)
