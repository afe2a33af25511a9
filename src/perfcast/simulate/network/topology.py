"""Devices, switches and links: the graph on which flows run, and how it is wired up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.machine.cluster import Link
from perfcast.errors import PlanError, UnknownNameError
from perfcast.simulate.network.arrays import ints
from perfcast.simulate.network.limits import LINKS

NONE = -1


@dataclass(frozen=True, eq=False, slots=True)
class Topology:
    """A network of switches with devices at its ends.

    There are one or two planes: the first joins the devices of a unit (a node, or all of a one-level
    cluster), the second joins units. A device hangs on one switch in each plane by a link up and a link down.
    A link has one direction, or serves both where it is not duplex. Arcs are the directions of links between
    switches.

    Attributes:
        unit_size: Devices of one unit; flows inside a unit stay in the first plane.
        attached, up_link, down_link: Shape (planes, devices): switch of a device, link to it, link from it.
        tail, head, arc_link: Of each arc: from switch, to switch, by link.
        cost: Of each arc; a way is short if its costs add up to little.
        bytes_per_second, latency_seconds, is_up: Of each link; the rate is that of one direction.
        detours: Switches through which a route may go out of its way; empty where there are none.
        has_relays: Whether a message to another rail goes inside its unit to that rail first.
    """

    name: str
    num_devices: int
    unit_size: int
    switch_names: tuple[str, ...]
    attached: Integers
    up_link: Integers
    down_link: Integers
    tail: Integers
    head: Integers
    arc_link: Integers
    cost: Integers
    bytes_per_second: Floats
    latency_seconds: Floats
    is_up: Flags
    detours: Integers
    has_relays: bool = False

    @property
    def num_links(self) -> int:
        """Links of both planes; a duplex cable is two."""
        return len(self.bytes_per_second)

    @property
    def num_planes(self) -> int:
        """One or two."""
        return len(self.attached)

    def links_between(self, first: str, second: str) -> Integers:
        """Links of both directions between two neighbours: ``'device 3'``, or the name of a switch.

        Raises:
            UnknownNameError: No such device or switch.
            PlanError: They are not neighbours.
        """
        if second.startswith("device "):
            first, second = second, first
        if first.startswith("device "):
            found = self._links_of_device(self._device(first), self._switch(second))
        else:
            one, other = self._switch(first), self._switch(second)
            forth = (self.tail == one) & (self.head == other)
            back = (self.tail == other) & (self.head == one)
            found = np.unique(self.arc_link[forth | back])
        if not len(found):
            raise PlanError(f"'{first}' and '{second}' of {self.name} are not joined by a link")
        return found

    def links_of_switch(self, name: str) -> Integers:
        """All links that end at a switch.

        Raises:
            UnknownNameError: No such switch.
        """
        switch = self._switch(name)
        trunks = self.arc_link[(self.tail == switch) | (self.head == switch)]
        here = self.attached == switch
        return np.unique(np.concatenate([trunks, self.up_link[here], self.down_link[here]]))

    def link_name(self, link: int) -> str:
        """``'device 3 → node 0'``; of a link that is not duplex, one of its directions."""
        arcs = np.flatnonzero(self.arc_link == link)
        if len(arcs):
            tail, head = self.tail[arcs[0]], self.head[arcs[0]]
            return f"{self.switch_names[tail]} → {self.switch_names[head]}"
        for links, text in ((self.up_link, "device {} → {}"), (self.down_link, "{1} → device {0}")):
            planes, devices = np.nonzero(links == link)
            if len(planes):
                return text.format(devices[0], self.switch_names[self.attached[planes[0], devices[0]]])
        raise PlanError(f"{self.name} has no link {link}; it has {self.num_links}")

    def _device(self, name: str) -> int:
        number = name.removeprefix("device ")
        if not re.fullmatch(r"[0-9]{1,9}", number) or int(number) >= self.num_devices:
            raise UnknownNameError("device of the network", name, (), f"It has {self.num_devices} devices.")
        return int(number)

    def _switch(self, name: str) -> int:
        if name not in self.switch_names:
            raise UnknownNameError("switch", name, self.switch_names)
        return self.switch_names.index(name)

    def _links_of_device(self, device: int, switch: int) -> Integers:
        here = self.attached[:, device] == switch
        return np.unique(np.concatenate([self.up_link[here, device], self.down_link[here, device]]))


def fail(topology: Topology, links: Sequence[tuple[str, str]] = (), switches: Sequence[str] = ()) -> Topology:
    """The same network with some links (by the names of their two ends) and switches out of order.

    Raises:
        UnknownNameError: No such device or switch.
        PlanError: Two ends that are not neighbours.
    """
    is_up = topology.is_up.copy()
    for first, second in links:
        is_up[topology.links_between(first, second)] = False
    for name in switches:
        is_up[topology.links_of_switch(name)] = False
    return replace(topology, is_up=is_up)


@dataclass(slots=True)
class Wiring:
    """A topology under construction."""

    num_devices: int
    num_planes: int
    switch_names: list[str] = field(default_factory=list)
    attached: Integers = field(init=False)
    up_link: Integers = field(init=False)
    down_link: Integers = field(init=False)
    numbered: dict[str, int] = field(default_factory=dict)
    num_links: int = 0
    arcs: list[tuple[Integers, Integers, Integers, Integers]] = field(default_factory=list)
    rates: list[Floats] = field(default_factory=list)
    latencies: list[Floats] = field(default_factory=list)
    detours: list[Integers] = field(default_factory=list)
    has_relays: bool = False

    def __post_init__(self) -> None:
        shape = (self.num_planes, self.num_devices)
        self.attached, self.up_link, self.down_link = (np.full(shape, NONE, np.int64) for _ in range(3))

    def add_switches(self, prefix: str, count: int) -> Integers:
        """``count`` switches named ``'prefix 0'``, ``'prefix 1'`` …; goes on where the prefix left off."""
        first, begin = self.numbered.get(prefix, 0), len(self.switch_names)
        self.numbered[prefix] = first + count
        self.switch_names += [f"{prefix} {first + i}" for i in range(count)]
        return np.arange(begin, begin + count, dtype=np.int64)

    def attach(
        self, plane: int, devices: Integers, switches: Integers, link: Link, latency_seconds: float
    ) -> None:
        """Hang each device on its switch, at the rate of the cluster's link."""
        up, down = self._new_links(len(devices), link.bytes_per_second, latency_seconds, link.is_duplex)
        self.attached[plane, devices] = switches
        self.up_link[plane, devices], self.down_link[plane, devices] = up, down

    def connect(
        self,
        tails: Integers,
        heads: Integers,
        bytes_per_second: float,
        latency_seconds: float,
        is_duplex: bool = True,
        cost: int = 1,
    ) -> None:
        """Cables between pairs of switches, both ways."""
        forth, back = self._new_links(len(tails), bytes_per_second, latency_seconds, is_duplex)
        costs = np.full(len(tails), cost)
        self.arcs += [(tails, heads, forth, costs), (heads, tails, back, costs)]

    def _new_links(
        self, count: int, bytes_per_second: float, latency_seconds: float, is_duplex: bool
    ) -> tuple[Integers, Integers]:
        made = 2 * count if is_duplex else count
        LINKS.check("links of the network:", self.num_links + made, PlanError)
        self.rates.append(np.full(made, bytes_per_second))
        self.latencies.append(np.full(made, latency_seconds))
        forth = np.arange(self.num_links, self.num_links + count, dtype=np.int64)
        self.num_links += made
        return forth, forth + count if is_duplex else forth

    def finish(self, name: str, unit_size: int) -> Topology:
        """What was wired."""
        empty = ints([])
        tail, head, link, cost = (np.concatenate([empty, *(arc[i] for arc in self.arcs)]) for i in range(4))
        return Topology(
            name=name,
            num_devices=self.num_devices,
            unit_size=unit_size,
            switch_names=tuple(self.switch_names),
            attached=self.attached,
            up_link=self.up_link,
            down_link=self.down_link,
            tail=tail,
            head=head,
            arc_link=link,
            cost=cost,
            bytes_per_second=np.concatenate([np.zeros(0), *self.rates]),
            latency_seconds=np.concatenate([np.zeros(0), *self.latencies]),
            is_up=np.ones(self.num_links, dtype=np.bool_),
            detours=np.concatenate([empty, *self.detours]),
            has_relays=self.has_relays,
        )
