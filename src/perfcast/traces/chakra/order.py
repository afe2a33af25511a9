"""The order of a Chakra trace's nodes: whether there is one, and the longest path through it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from perfcast.errors import TraceError
from perfcast.traces import order as orders
from perfcast.traces.chakra.trace import ChakraNode, ChakraTrace


@dataclass(frozen=True)
class LongestPath:
    """The chain of nodes that decides how long a trace takes where nothing but dependencies holds it up."""

    micros: int
    nodes: tuple[int, ...]


def check_order(trace: ChakraTrace) -> None:
    """Nodes have ids of their own, and do not wait for each other.

    Raises:
        TraceError: Two have one id; some wait for each other in a circle.
    """
    if len(trace.by_id) < len(trace.nodes):
        twice = Counter(node.id for node in trace.nodes).most_common(1)[0][0]
        raise TraceError(f"'{trace.source}': two nodes have the id {twice}")
    in_order(trace)


def in_order(trace: ChakraTrace) -> tuple[ChakraNode, ...]:
    """The nodes so that each stands behind all that it waits for.

    What is not in the file is not waited for, and ``ctrl_deps`` are not: converters write there what called
    a node, also in circles, and name nodes that they leave out.

    Raises:
        TraceError: Nodes wait for each other in a circle.
    """
    places = {node.id: place for place, node in enumerate(trace.nodes)}
    followers: list[list[int]] = [[] for _ in trace.nodes]
    for place, node in enumerate(trace.nodes):
        for awaited in dict.fromkeys(node.data_deps):
            if awaited in places:
                followers[places[awaited]].append(place)
    ordered = orders.in_order(followers)
    if len(ordered) < len(trace.nodes):
        met = set(ordered)
        stuck = [node.id for place, node in enumerate(trace.nodes) if place not in met]
        raise TraceError(
            f"'{trace.source}': nodes wait for each other in a circle, among them "
            f"{', '.join(map(str, stuck[:5]))}"
        )
    return tuple(trace.nodes[place] for place in ordered)


def missing_dependencies(trace: ChakraTrace) -> tuple[tuple[int, int], ...]:
    """Pairs of a node and one that it waits for but that is not in the file."""
    return tuple(
        (node.id, awaited) for node in trace.nodes for awaited in node.data_deps if awaited not in trace.by_id
    )


def longest_path(trace: ChakraTrace) -> LongestPath:
    """The longest chain by durations.

    Raises:
        TraceError: There is no order.
    """
    ends: dict[int, int] = {}
    before: dict[int, int] = {}
    for node in in_order(trace):
        awaited = (other for other in node.data_deps if other in ends)
        latest = max(awaited, key=lambda other: ends[other], default=None)
        if latest is not None:
            before[node.id] = latest
        ends[node.id] = (ends[latest] if latest is not None else 0) + node.duration_micros
    if not ends:
        return LongestPath(0, ())
    at: int | None = max(ends, key=lambda node_id: ends[node_id])
    micros, path = ends[at] if at is not None else 0, []
    while at is not None:
        path.append(at)
        at = before.get(at)
    return LongestPath(micros, tuple(reversed(path)))
