"""One ideal switch in the middle: any device reaches any other at its full rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.simulate.network.fabrics.interface import Site
from perfcast.simulate.network.topology import Wiring


@dataclass(frozen=True, slots=True)
class Star:
    """What the closed form assumes: a switch without limits; where the cluster's link is oversubscribed, each
    unit reaches it through a shared uplink of its devices' rate over the oversubscription.
    """

    def wire(self, wiring: Wiring, site: Site) -> Integers:
        """See ``Fabric``; half of the link's latency lies on either end."""
        link, (num_units, unit_size) = site.link, site.devices.shape
        half_seconds = link.latency_seconds / 2
        center = wiring.add_switches(f"{site.prefix}switch", 1)
        if link.oversubscription == 1:
            hosts = np.repeat(center, site.devices.size)
        else:
            edges = wiring.add_switches(f"{site.prefix}edge", num_units)
            hosts = np.repeat(edges, unit_size)
            uplink = unit_size * link.bytes_per_second / link.oversubscription
            wiring.connect(edges, np.repeat(center, num_units), uplink, 0.0, link.is_duplex)
        wiring.attach(site.plane, site.devices.ravel(), hosts, link, half_seconds)
        return center
