"""Which links a flow crosses: up from its device, between switches, down to its device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import PlanError, UnknownNameError
from perfcast.simulate.network.arrays import Incidence, mix, sums_by, words_of
from perfcast.simulate.network.routing.detours import go_round, go_round_if_crowded
from perfcast.simulate.network.routing.paths import Trunks, choose_by_hash, split_evenly
from perfcast.simulate.network.topology import NONE, Topology

#: How a flow is routed: over all shortest paths evenly (packet spraying); over one by a hash of its two ends
#: (ECMP); out of its way always; evenly or out of its way, as the links are loaded.
POLICIES = ("even", "hash", "valiant", "adaptive")


@dataclass(frozen=True, eq=False, slots=True)
class Routes:
    """The links of each flow, in two steps: a flow crosses segments, and a segment spreads over links.

    Attributes:
        segments: Flow × segment.
        links: Segment × link of the topology, with the share of the segment's traffic.
        latency_seconds: Of each flow, from end to end; of several paths the mean.
    """

    segments: Incidence
    links: Incidence
    latency_seconds: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Legs:
    """Flows in pieces that stay in one plane; a flow that is relayed has two."""

    flow: Integers
    plane: Integers
    source: Integers
    destination: Integers


def route_flows(
    topology: Topology, sources: Integers, destinations: Integers, flow_bytes: Floats, policy: str = "even"
) -> Routes:
    """Find the way of each flow between two devices around all that has failed.

    Args:
        topology: The network.
        sources, destinations: Device of each flow.
        flow_bytes: All that each flow carries; only ``adaptive`` looks at it.
        policy: One of ``POLICIES``; inside units always ``even``, but for ``hash``.

    Raises:
        UnknownNameError: No such policy.
        PlanError: A device that is not there, a flow to itself, or ends between which no path is left.
    """
    if policy not in POLICIES:
        raise UnknownNameError("routing policy", policy, POLICIES, f"Policies: {', '.join(POLICIES)}.")
    _check_ends(topology, sources, destinations)
    legs = _legs(topology, sources, destinations)
    up = topology.up_link[legs.plane, legs.source]
    down = topology.down_link[legs.plane, legs.destination]
    _check_devices(topology, legs, up, down)
    begin = topology.attached[legs.plane, legs.source]
    end = topology.attached[legs.plane, legs.destination]
    trunks, leg_trunk = _trunks(topology, legs, begin, end, flow_bytes, policy)
    crossed = leg_trunk >= 0
    num_segments = topology.num_links + trunks.num_pairs
    flow = np.concatenate([legs.flow, legs.flow, legs.flow[crossed]])
    segment = np.concatenate([up, down, topology.num_links + leg_trunk[crossed]])
    used, columns = np.unique(segment, return_inverse=True)
    direct = used[used < topology.num_links]
    names = np.full(num_segments, NONE)
    names[used] = np.arange(len(used))
    links = Incidence(
        len(used),
        topology.num_links,
        np.concatenate([np.arange(len(direct)), names[topology.num_links + trunks.pairs]]),
        np.concatenate([direct, trunks.links]),
        np.concatenate([np.ones(len(direct)), trunks.weights]),
    )
    delays = sums_by(links.rows, links.weights * topology.latency_seconds[links.columns], len(used))
    segments = Incidence(len(sources), len(used), flow, columns.astype(np.int64), np.ones(len(flow)))
    latency = sums_by(flow, delays[columns], len(sources))
    return Routes(segments, links, latency)


def _check_ends(topology: Topology, sources: Integers, destinations: Integers) -> None:
    for ends in (sources, destinations):
        if len(ends) and not 0 <= ends.min() <= ends.max() < topology.num_devices:
            outside = ends[(ends < 0) | (ends >= topology.num_devices)][0]
            raise PlanError(f"device {outside} is not among the {topology.num_devices} of {topology.name}")
    if (sources == destinations).any():
        raise PlanError(f"a flow from device {sources[sources == destinations][0]} to itself")


def _legs(topology: Topology, sources: Integers, destinations: Integers) -> Legs:
    """Inside a unit, or between units, where to another rail by way of the own unit if there are relays."""
    size = topology.unit_size
    plane = (sources // size != destinations // size).astype(np.int64)
    flows = np.arange(len(sources))
    if not topology.has_relays:
        return Legs(flows, plane, sources, destinations)
    relays = sources // size * size + destinations % size
    relayed = (plane == 1) & (relays != sources)
    first = np.where(relayed, relays, sources)
    return Legs(
        np.concatenate([flows, flows[relayed]]),
        np.concatenate([plane, np.zeros(int(relayed.sum()), np.int64)]),
        np.concatenate([first, sources[relayed]]),
        np.concatenate([destinations, relays[relayed]]),
    )


def _check_devices(topology: Topology, legs: Legs, up: Integers, down: Integers) -> None:
    for links, devices in ((up, legs.source), (down, legs.destination)):
        cut = (links == NONE) | ~topology.is_up[links]
        if cut.any():
            raise PlanError(f"device {devices[cut][0]} of {topology.name} is cut off: its link failed")


def _trunks(
    topology: Topology, legs: Legs, begin: Integers, end: Integers, flow_bytes: Floats, policy: str
) -> tuple[Trunks, Integers]:
    """Ways between switches, and which of them each leg takes (-1: it needs none)."""
    leg_trunk = np.full(len(begin), NONE, dtype=np.int64)
    crossing = np.flatnonzero(begin != end)
    if policy == "hash":
        leg_trunk[crossing] = np.arange(len(crossing))
        keys = mix(words_of(legs.source[crossing])) ^ words_of(legs.destination[crossing])
        return choose_by_hash(topology, begin[crossing], end[crossing], keys), leg_trunk
    num_switches = len(topology.switch_names)
    pairs, which = np.unique(begin[crossing] * num_switches + end[crossing], return_inverse=True)
    leg_trunk[crossing] = which
    first, last = pairs // num_switches, pairs % num_switches
    if policy == "valiant":
        return go_round(topology, first, last), leg_trunk
    if policy == "adaptive":
        carried = sums_by(which, flow_bytes[legs.flow[crossing]], len(pairs))
        return go_round_if_crowded(topology, first, last, carried), leg_trunk
    return split_evenly(topology, first, last), leg_trunk
