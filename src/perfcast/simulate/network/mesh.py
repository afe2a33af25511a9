"""A collective on axes of a mesh, flow by flow through a fabric: every group of the axes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.mesh import DeviceMesh
from perfcast.simulate.network.build import build_topology
from perfcast.simulate.network.collectives import algorithms
from perfcast.simulate.network.fabrics.names import parse_fabric
from perfcast.simulate.network.simulate import simulate_groups
from perfcast.simulate.network.topology import fail

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
) -> tuple[FabricTime, ...]:
    """Simulate a collective in all groups of some axes at once.

    Args:
        fabric: As ``names.parse_fabric`` reads it, for example 'fat-tree:radix=64,oversubscription=2'.
        algorithm: One of ``collectives.algorithms``; None takes a ring, or where there is none the first.
        failed_links: Pairs of switch names between which all links are down.

    Raises:
        UnknownNameError: No such axis, fabric, collective or algorithm.
        PlanError: A fabric that does not fit the cluster, or groups that failures cut apart.
    """
    topology = build_topology(mesh.cluster, parse_fabric(fabric))
    if failed_links:
        topology = fail(topology, links=list(failed_links))
    groups = groups_of(mesh, axes)
    known = algorithms(collective)
    chosen = algorithm or ("ring" if "ring" in known else known[0])
    times = []
    for size in message_bytes:
        seconds, result = simulate_groups(topology, collective, size, groups, chosen, policy)
        # Equally busy links in the order of the fabric, whichever way rounding went.
        order = (-result.link_utilisation.round(12)).argsort(kind="stable")[:_BUSIEST].tolist()
        busiest = tuple((topology.link_name(link), float(result.link_utilisation[link])) for link in order)
        times.append(FabricTime(size, float(seconds.max()), busiest, result.is_exact))
    return tuple(times)


def groups_of(mesh: DeviceMesh, axes: Sequence[str]) -> list[tuple[int, ...]]:
    """Every group of the axes, each once, in the order of its first rank."""
    left, groups = set(range(mesh.cluster.num_devices)), []
    for rank in range(mesh.cluster.num_devices):
        if rank in left:
            group = mesh.group(tuple(axes), rank)
            left.difference_update(group)
            groups.append(group)
    return groups
