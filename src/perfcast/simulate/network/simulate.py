"""The door: a topology and flows, or a collective, → seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.simulate.network.arrays import Incidence, ints, sums_by
from perfcast.simulate.network.collectives import Group, collective_flows
from perfcast.simulate.network.engine import play
from perfcast.simulate.network.flows import FlowSet, together
from perfcast.simulate.network.routing.routes import Routes, route_flows
from perfcast.simulate.network.symmetry import fold
from perfcast.simulate.network.topology import Topology

#: Chunks of a pipelined algorithm, by default.
NUM_CHUNKS = 16
#: Kinds of flows up to which flows are told apart by what they wait for alone, by default.
MOST_KINDS = 4096


@dataclass(frozen=True, eq=False, slots=True)
class FlowResult:
    """When each flow was done, and how busy the links were.

    Attributes:
        finish_seconds: Arrival of each flow's last byte.
        link_bytes: That each link carried.
        link_utilisation: Of each link, the part of its rate that was used from time 0 to the end.
        num_kinds: Different flows that were played; the others are like one of these.
        num_events: Moments that were played.
        is_exact: Whether every message was played, or repeated what was; otherwise a long stretch was taken
            at its average pace, or flows of one kind, which do not wait for equal ones, for all of them.
    """

    finish_seconds: Floats
    link_bytes: Floats
    link_utilisation: Floats
    num_kinds: int
    num_events: int
    is_exact: bool

    @property
    def makespan_seconds(self) -> float:
        """Until the last arrival."""
        return float(self.finish_seconds.max(initial=0.0))


def simulate_flows(
    topology: Topology, flows: FlowSet, policy: str = "even", most_kinds: int = MOST_KINDS
) -> FlowResult:
    """Play flows that share the links of a network max-min fairly.

    A flow's bytes drain at its rate, which changes when others start and end; its last byte arrives the
    latency of its way later. Congestion control is ideal: no losses, no queues, no time to converge.

    Args:
        topology: The network.
        flows: What is sent.
        policy: How flows are routed; see ``routing.POLICIES``.
        most_kinds: Flows that differ only by what they wait for are told apart until there are so many kinds;
            beyond, a kind waits for all that one of its flows waits for (``is_exact`` says so).

    Raises:
        UnknownNameError: No such policy.
        PlanError: A device that is not there, ends between which no path is left, or flows that wait for each
            other in a circle.
    """
    if not flows.num_flows:
        nothing = np.zeros(topology.num_links)
        return FlowResult(np.zeros(0), nothing, nothing, 0, 0, True)
    routes = route_flows(topology, flows.source, flows.destination, flows.flow_bytes, policy)
    kinds = fold(flows, routes, topology.bytes_per_second, most_kinds)
    end = play(kinds)
    finish = end.finish_seconds[kinds.flow_kind]
    carried = link_bytes(routes, flows.flow_bytes)
    could_carry = topology.bytes_per_second * float(finish.max())
    used = np.divide(carried, could_carry, out=np.zeros(topology.num_links), where=could_carry > 0)
    return FlowResult(finish, carried, used, kinds.num_kinds, end.num_events, kinds.is_exact and end.is_exact)


def link_bytes(routes: Routes, flow_bytes: Floats) -> Floats:
    """What each link carries in all."""
    return passed_on(routes.links, passed_on(routes.segments, flow_bytes))


def passed_on(incidence: Incidence, row_bytes: Floats) -> Floats:
    """Bytes of the columns from those of the rows."""
    carried = incidence.weights * row_bytes[incidence.rows]
    return sums_by(incidence.columns, carried, incidence.num_columns)


def simulate_groups(
    topology: Topology,
    collective: str,
    message_bytes: float,
    groups: Sequence[Sequence[int]],
    algorithm: str = "ring",
    policy: str = "even",
    num_chunks: int = NUM_CHUNKS,
) -> tuple[Floats, FlowResult]:
    """The same collective in several groups at once, which contend for the links.

    Args:
        topology: The network.
        collective, message_bytes: As in ``perfcast.core.collective``.
        groups: Ranks of each group, in the algorithm's order; the first is the root.
        algorithm: One of ``collectives.algorithms(collective)``.
        policy: How flows are routed.
        num_chunks: Of pipelined algorithms.

    Returns:
        Seconds of each group, and the result of all flows.

    Raises:
        UnknownNameError: No such collective, algorithm or policy.
        PlanError: Groups that the algorithm is not for, or ranks that cannot reach each other.
    """
    sets = [
        collective_flows(
            collective, algorithm, message_bytes, Group(ints(ranks), topology.unit_size, num_chunks)
        )
        for ranks in groups
    ]
    result = simulate_flows(topology, together(sets), policy)
    owners = np.repeat(np.arange(len(sets)), [flows.num_flows for flows in sets])
    return latest(owners, result.finish_seconds, len(sets)), result


def latest(owners: Integers, seconds: Floats, count: int) -> Floats:
    """The last finish of each owner's flows; 0 without flows."""
    ends = np.zeros(count)
    np.maximum.at(ends, owners, seconds)
    return ends
