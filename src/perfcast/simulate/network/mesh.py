"""A collective on axes of a mesh, flow by flow through a fabric: every group of the axes at once.

Links run at the rate and with the latency that the closed form's fitted constants give a call
(``cost.collective.achieved``), and what no link does (the launch, filling a pipeline, copies of one's own) is
the closed form's too: where nothing is shared or oversubscribed, both say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.mesh import DeviceMesh
from perfcast.cost.collective.achieved import achieved_links, software_of
from perfcast.cost.collective.constants import Constants
from perfcast.simulate.network.build import build_topology
from perfcast.simulate.network.collectives import algorithms
from perfcast.simulate.network.fabrics.names import parse_fabric
from perfcast.simulate.network.limits import check_cost
from perfcast.simulate.network.simulate import simulate_groups
from perfcast.simulate.network.topology import Topology, fail

_BUSIEST = 3


@dataclass(frozen=True, slots=True)
class FabricTime:
    """One message size on a fabric.

    Attributes:
        seconds: Until the last group is done.
        busiest: The links that were used most, with the share of their rate.
        is_exact: Whether every flow was played (see ``FlowResult``).
    """

    message_bytes: float
    seconds: float
    busiest: tuple[tuple[str, float], ...]
    is_exact: bool


def simulate_axes(
    mesh: DeviceMesh,
    axes: Sequence[str],
    collective: str,
    message_bytes: Sequence[float],
    fabric: str,
    *,
    algorithm: str | None = None,
    policy: str = "even",
    failed_links: Sequence[tuple[str, str]] = (),
    constants: Constants | None = None,
) -> tuple[FabricTime, ...]:
    """Simulate a collective in all groups of some axes at once.

    Args:
        fabric: As ``names.parse_fabric`` reads it, for example 'fat-tree:radix=64,oversubscription=2'.
        algorithm: One of ``collectives.algorithms``; None takes rings through all ranks of a unit where a
            group has several there, else a ring, or where there is none the first.
        failed_links: Pairs of switch names between which all links are down.
        constants: Of collectives; the shipped ones by default.

    Raises:
        UnknownNameError: No such axis, fabric, collective or algorithm.
        PlanError: A fabric that does not fit the cluster, groups that failures cut apart, or more than is
            simulated (``limits``).
    """
    wired = parse_fabric(fabric)
    span = mesh.cluster.span(mesh.group(tuple(axes)))
    chosen = algorithm or usual_algorithm(collective, span)
    check_cost(mesh.cluster.num_devices, collective, chosen, span)
    groups = groups_of(mesh, axes)
    networks: dict[Cluster, Topology] = {}
    times = []
    for size in message_bytes:
        software = software_of(mesh.cluster, collective, chosen, size, span, constants)
        cluster = achieved_links(mesh.cluster, software, constants)
        if cluster not in networks:
            topology = build_topology(cluster, wired)
            networks[cluster] = fail(topology, links=list(failed_links)) if failed_links else topology
        topology = networks[cluster]
        seconds, result = simulate_groups(topology, collective, size, groups, chosen, policy)
        # Equally busy links in the order of the fabric, whichever way rounding went.
        order = (-result.link_utilisation.round(12)).argsort(kind="stable")[:_BUSIEST].tolist()
        busiest = tuple((topology.link_name(link), float(result.link_utilisation[link])) for link in order)
        beside = software.beside_links if len(groups[0]) > 1 else 0.0
        times.append(FabricTime(size, float(seconds.max()) + beside, busiest, result.is_exact))
    return tuple(times)


def usual_algorithm(collective: str, span: Sequence[int]) -> str:
    """What is played where nobody says: as the library does, rings through all links of a unit.

    Raises:
        UnknownNameError: No such collective.
    """
    known = algorithms(collective)
    crosses_together = span[0] > 1 and any(members > 1 for members in span[1:])
    wanted = ("rings", "ring") if crosses_together else ("ring",)
    return next((name for name in wanted if name in known), known[0])


def groups_of(mesh: DeviceMesh, axes: Sequence[str]) -> list[tuple[int, ...]]:
    """Every group of the axes, each once, in the order of its first rank."""
    left, groups = set(range(mesh.cluster.num_devices)), []
    for rank in range(mesh.cluster.num_devices):
        if rank in left:
            group = mesh.group(tuple(axes), rank)
            left.difference_update(group)
            groups.append(group)
    return groups
