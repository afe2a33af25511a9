"""Folded Clos networks of two or three tiers (leaf, spine; leaf, aggregation, core)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.fabrics.interface import Site
from perfcast.simulate.network.topology import Wiring


@dataclass(frozen=True, slots=True)
class FatTree:
    """Switches of ``radix`` ports; devices fill the leaves in order.

    A switch below the top has ``radix · o / (1 + o)`` ports down (rounded down) and the rest up, for an
    oversubscription ``o``; the rate of its uplinks is such that down : up is ``o`` : 1 to the digit.

    Attributes:
        radix: Ports of one switch.
        oversubscription: Of the leaves, then of the aggregation tier; none given: what the cluster's link
            says for the leaves, and 1 above. A missing second figure is 1.
        hop_seconds: Latency of each link between switches; the latency of the cluster's link lies on the
            devices' own links, half on either end.
    """

    radix: int
    oversubscription: tuple[float, ...] = ()
    hop_seconds: float = 0.0

    def wire(self, wiring: Wiring, site: Site) -> Integers:
        """See ``Fabric``.

        Raises:
            PlanError: More devices than three tiers of such switches hold.
        """
        ratios = tier_ratios(self.oversubscription, site)
        down = ports_down(self.radix, ratios[0])
        devices = site.devices.ravel()
        places = np.arange(devices.size) // down
        leaves = wiring.add_switches(f"{site.prefix}leaf", int(places[-1]) + 1)
        wiring.attach(site.plane, devices, leaves[places], site.link, site.link.latency_seconds / 2)
        return join_leaves(wiring, site, leaves, self.radix, ratios, self.hop_seconds)


def tier_ratios(oversubscription: tuple[float, ...], site: Site) -> tuple[float, float]:
    """Two figures from none, one or two; see ``FatTree``.

    Raises:
        PlanError: A figure that is not positive, or too many of them.
    """
    given = oversubscription or (site.link.oversubscription,)
    if len(given) > 2 or min(given) <= 0:
        raise PlanError(f"oversubscription {oversubscription}: one or two positive figures, leaf tier first")
    return given[0], given[1] if len(given) == 2 else 1.0


def ports_down(radix: int, oversubscription: float) -> int:
    """Ports towards the devices of a switch that has a tier above it.

    Raises:
        PlanError: A radix that leaves no port on one side.
    """
    down = int(radix * oversubscription / (1 + oversubscription))
    if not 0 < down < radix:
        raise PlanError(f"switches of {radix} ports cannot be oversubscribed {oversubscription} : 1")
    return down


def join_leaves(
    wiring: Wiring, site: Site, leaves: Integers, radix: int, ratios: tuple[float, float], hop_seconds: float
) -> Integers:
    """Spines above the leaves, or pods and a core where there are more leaves than a spine has ports.

    Returns:
        The switches at the top.

    Raises:
        PlanError: More leaves than three tiers hold.
    """
    if len(leaves) == 1:
        return leaves
    down, rate = ports_down(radix, ratios[0]), site.link.bytes_per_second
    up = radix - down
    up_rate = down * rate / (ratios[0] * up)
    if len(leaves) <= radix:
        spines = wiring.add_switches(f"{site.prefix}spine", up)
        connect_all(wiring, leaves, spines, up_rate, hop_seconds)
        return spines
    pod_leaves = ports_down(radix, ratios[1])
    num_pods = -(-len(leaves) // pod_leaves)
    if num_pods > radix:
        most = radix * pod_leaves
        raise PlanError(f"{len(leaves)} leaves need more than three tiers of {radix}-port switches ({most})")
    up_ports = radix - pod_leaves
    core = wiring.add_switches(f"{site.prefix}core", up * up_ports).reshape(up, up_ports)
    core_rate = pod_leaves * up_rate / (ratios[1] * up_ports)
    for pod in range(num_pods):
        spines = wiring.add_switches(f"{site.prefix}pod {pod} spine", up)
        connect_all(wiring, leaves[pod * pod_leaves : (pod + 1) * pod_leaves], spines, up_rate, hop_seconds)
        wiring.connect(np.repeat(spines, up_ports), core.ravel(), core_rate, hop_seconds)
    return core.ravel()


def connect_all(
    wiring: Wiring, lower: Integers, upper: Integers, bytes_per_second: float, hop_seconds: float
) -> None:
    """One cable from every lower switch to every upper one."""
    tails, heads = np.repeat(lower, len(upper)), np.tile(upper, len(lower))
    wiring.connect(tails, heads, bytes_per_second, hop_seconds)
