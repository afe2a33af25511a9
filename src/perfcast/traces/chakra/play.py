"""Chakra traces of all ranks played together: collectives start with their last member.

Nothing but dependencies holds a node up: what a simulator with unlimited processors and the recorded
durations of collectives would find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfcast.errors import TraceError
from perfcast.simulate.engine import play
from perfcast.simulate.program import Lane, ProgramBuilder
from perfcast.traces.chakra.collectives import WORLD
from perfcast.traces.chakra.order import in_order
from perfcast.traces.chakra.trace import ChakraNode, ChakraTrace, ChakraWorkload, NodeType


@dataclass(frozen=True)
class PlayedWorkload:
    """When each rank's last node ends, in seconds from the common start."""

    end_seconds: tuple[float, ...]


#: What makes nodes of several ranks one collective.
_Key = tuple[object, ...]


def play_workload(workload: ChakraWorkload) -> PlayedWorkload:
    """Play all ranks.

    Raises:
        TraceError: A collective that not all members of its group have; ranks that wait for each other.
    """
    members = collective_members(workload)
    builder = ProgramBuilder()
    collectives = {key: builder.add_collective(len(ranks)) for key, ranks in members.items()}
    tasks: list[list[int]] = []
    for trace in workload.traces:
        keys = dict(_keys(trace))
        of_node: dict[int, int] = {}
        for node in in_order(trace):
            after = [of_node[awaited] for awaited in dict.fromkeys(node.data_deps) if awaited in of_node]
            lane = builder.add_lane(Lane(f"rank {trace.rank} node {node.id}"))
            of_node[node.id] = builder.add(
                lane, node.seconds, after, node.name, collective=collectives.get(keys.get(node.id, ()), -1)
            )
        tasks.append(list(of_node.values()))
    ends = play(builder.build()).ends
    return PlayedWorkload(tuple(float(ends[own].max(initial=0.0)) for own in tasks))


def collective_members(workload: ChakraWorkload) -> Mapping[_Key, tuple[int, ...]]:
    """Collectives that several of the traces have, by kind, group and place in it, with those ranks.

    Raises:
        TraceError: A member of the group that is among the traces does not have it, or as another kind.
    """
    found: dict[_Key, list[tuple[int, ChakraNode]]] = {}
    for trace in workload.traces:
        for node_id, key in _keys(trace):
            found.setdefault(key, []).append((trace.rank, trace.by_id[node_id]))
    ranks = {trace.rank for trace in workload.traces}
    groups = {group.name: set(group.ranks) & ranks for group in workload.groups}
    for key, nodes in found.items():
        expected = groups.get(str(key[1]), ranks) if key[0] == "collective" else {rank for rank, _ in nodes}
        if {rank for rank, _ in nodes} != expected:
            raise TraceError(
                f"collective {key[-1]} of process group {key[1]} is on ranks "
                f"{sorted(rank for rank, _ in nodes)}, not on {sorted(expected)}"
            )
        kinds = {node.number("comm_type", -1) for _, node in nodes}
        if len(kinds) > 1:
            raise TraceError(
                f"collective {key[-1]} of process group {key[1]} is of another kind on some ranks"
            )
    return {key: tuple(rank for rank, _ in nodes) for key, nodes in found.items() if len(nodes) > 1}


def lonely_messages(workload: ChakraWorkload) -> Mapping[int, frozenset[int]]:
    """Of each rank, nodes of messages whose other end is not among the traces."""
    ends: Counter[_Key] = Counter()
    keys = {trace.rank: dict(_keys(trace)) for trace in workload.traces}
    for own in keys.values():
        ends.update(own.values())
    return {
        trace.rank: frozenset(
            node.id
            for node in trace.nodes
            if node.type in (NodeType.SEND, NodeType.RECEIVE) and ends[keys[trace.rank].get(node.id, ())] < 2
        )
        for trace in workload.traces
    }


def _keys(trace: ChakraTrace) -> Iterator[tuple[int, _Key]]:
    """Collectives in the order of ids, which is the order in which a simulator issues them."""
    places: Counter[_Key] = Counter()
    for node in sorted(trace.nodes, key=lambda one: one.id):
        key = _family(node, trace.rank)
        if key:
            yield node.id, (*key, places[key])
            places[key] += 1


def _family(node: ChakraNode, rank: int) -> _Key:
    if node.type == NodeType.COLLECTIVE and not node.is_on_host:
        return ("collective", node.group or WORLD)
    if node.type in (NodeType.SEND, NodeType.RECEIVE):
        if node.value("comm_dst" if node.type == NodeType.SEND else "comm_src") is None:
            return ()
        source, target = node.number("comm_src", rank), node.number("comm_dst", rank)
        return ("message", f"{source} to {target}", node.number("comm_tag"))
    return ()
