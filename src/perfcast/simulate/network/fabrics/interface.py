"""What a fabric is: it wires the devices of a site together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perfcast.core.arrays import Integers
from perfcast.core.machine.cluster import Link
from perfcast.simulate.network.topology import Wiring


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """Devices that one fabric joins.

    Attributes:
        devices: Shape (units, devices of a unit).
        link: What a device sees of the fabric, from the cluster.
        plane: In which plane of the topology the fabric lies.
        prefix: Put before the names of switches, so that sites can be told apart.
    """

    devices: Integers
    link: Link
    plane: int
    prefix: str = ""


class Fabric(Protocol):
    """The parameters of a kind of network."""

    def wire(self, wiring: Wiring, site: Site) -> Integers:
        """Join the devices of a site; returns the switches that a higher level is joined to.

        Raises:
            PlanError: The site does not fit into the fabric.
        """
        ...
