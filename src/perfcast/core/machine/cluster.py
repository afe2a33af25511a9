"""A cluster: equal devices at the leaves of a tree of links."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfcast.errors import PlanError


@dataclass(frozen=True, slots=True)
class Link:
    """What one device sees of one level of the tree.

    Attributes:
        kind: For example 'nvlink4', 'infiniband-ndr', 'efa', 'ethernet', 'pcie4', 'ici', 'wan'.
        latency_seconds: One way, between two devices that meet on this level.
        bytes_per_second: Of one device in one direction (its share of what its node has).
        is_duplex: Whether both directions run at that rate at once.
        oversubscription: How many times more the devices below could send than the level above them takes.
        reduces_in_network: Whether the switches reduce (NVLink SHARP, InfiniBand SHARP).
        is_switched: Whether any pair of the level has the full rate (a switch), or shares a ring, a torus
            or a bus.
        ring_bytes_per_second: Of groups of the first 2, 3, … members below one parent, where the links do not
            join all pairs alike (a hybrid cube mesh); empty: ``bytes_per_second`` for all.
        port_bytes_per_second: Of one device while its neighbours below the same parent are silent (a node's
            only adapter is all its own then); 0: ``bytes_per_second``.
    """

    kind: str
    latency_seconds: float
    bytes_per_second: float
    is_duplex: bool = True
    oversubscription: float = 1.0
    reduces_in_network: bool = False
    is_switched: bool = True
    ring_bytes_per_second: tuple[float, ...] = ()
    port_bytes_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the tree: ``size`` children (devices, or lower levels) joined by a link."""

    name: str
    size: int
    link: Link


@dataclass(frozen=True, slots=True)
class Cluster:
    """Levels from the devices outwards; the last one's size follows from the number of devices."""

    name: str
    title: str
    device: str
    levels: tuple[Level, ...]
    note: str = ""

    @property
    def num_devices(self) -> int:
        """Leaves of the tree."""
        return math.prod(level.size for level in self.levels)

    def span(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """How a group lies in the tree: for each level, its members below one parent, where they branch.

        Raises:
            PlanError: Ranks beyond the cluster, or a group that fills the levels unevenly.
        """
        if not ranks or min(ranks) < 0 or max(ranks) >= self.num_devices:
            raise PlanError(f"a group of ranks {ranks} does not lie in {self.num_devices} devices")
        members, spans = set(ranks), []
        for level in self.levels:
            parents: dict[int, int] = {}
            for member in members:
                parents[member // level.size] = parents.get(member // level.size, 0) + 1
            if len(set(parents.values())) != 1:
                raise PlanError(
                    f"a group of ranks {_few(ranks)} fills the level '{level.name}' unevenly: take degrees "
                    f"that divide its {level.size}, or a part of each ({self.name.partition('/')[0]}/K:N)"
                )
            spans.append(next(iter(parents.values())))
            members = set(parents)
        return tuple(spans)


def _few(ranks: tuple[int, ...]) -> str:
    """The first ranks of a group, for a message."""
    return f"({', '.join(map(str, ranks[:4]))}{', …' if len(ranks) > 4 else ''})"
