"""The chain of work and waits that decided how long a recorded window took."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from perfcast.traces.collectives.kernels import is_communication
from perfcast.traces.critical_path.device import connect_device
from perfcast.traces.critical_path.graph import Edge, EdgeKind, PathGraph, find_window, place_nodes
from perfcast.traces.critical_path.host import connect_lock, connect_threads
from perfcast.traces.critical_path.inferred import connect_inferred
from perfcast.traces.events import NONE, Trace
from perfcast.traces.explain.contexts import is_data_loading
from perfcast.traces.link.kernels import KernelLinks
from perfcast.traces.order import in_order
from perfcast.traces.timeline.structure import Structure, find_structure
from perfcast.units import GIGA


class BoundBy(Enum):
    """What a stretch of the path was spent on."""

    HOST = "host"
    DATA = "data loading"
    COMPUTE = "device compute"
    COMMUNICATION = "device communication"
    BETWEEN_KERNELS = "between kernels"
    LAUNCH = "launch"
    NOTHING = "order"

    __hash__ = object.__hash__


class PathStretch(NamedTuple):
    """One edge of the path: from the start or end of one event to that of another, and what the time went to.

    ``row`` and ``name`` are of the event that the time belongs to, -1 and '' where it is an order only.
    """

    begin_row: int
    end_row: int
    kind: EdgeKind
    bound_by: BoundBy
    row: int
    name: str
    start_seconds: float
    seconds: float


@dataclass(frozen=True)
class CriticalPath:
    """Stretches in order of time.

    ``has_synchronizations`` says whether the recording says what streams waited for.
    """

    stretches: tuple[PathStretch, ...]
    has_synchronizations: bool

    @property
    def seconds(self) -> float:
        """Sum over all stretches; at most as long as the window."""
        return sum(stretch.seconds for stretch in self.stretches)

    @property
    def seconds_by_bound(self) -> dict[str, float]:
        """What the path was spent on, the most first."""
        sums: dict[str, float] = {}
        for stretch in self.stretches:
            sums[stretch.bound_by.value] = sums.get(stretch.bound_by.value, 0.0) + stretch.seconds
        return dict(sorted(((k, s) for k, s in sums.items() if s > 0), key=lambda item: -item[1]))


def find_critical_path(
    trace: Trace, links: KernelLinks, low: float, high: float, structure: Structure | None = None
) -> CriticalPath:
    """The longest path through what was recorded between two moments.

    Args:
        structure: Of that window, where it is known.
    """
    graph = build_path_graph(trace, links, low, high, structure)
    edges = longest_path(graph)
    events = trace.events
    codes, streams = events.name_codes.tolist(), events.streams.tolist()
    spent = _Spent(trace)
    stretches = tuple(
        PathStretch(
            graph.rows[edge.begin],
            graph.rows[edge.end],
            edge.kind,
            spent.on(edge, codes[edge.row], streams[edge.row] != NONE),
            edge.row,
            events.names[codes[edge.row]] if edge.row != NONE else "",
            graph.moments[edge.begin] / GIGA,
            edge.nanoseconds / GIGA,
        )
        for edge in edges
    )
    return CriticalPath(stretches, bool(trace.synchronizations))


def build_path_graph(
    trace: Trace, links: KernelLinks, low: float, high: float, structure: Structure | None = None
) -> PathGraph:
    """All nodes and edges of a window."""
    window = find_window(trace, low, high, links.call_of)
    graph = place_nodes(trace, window)
    connect_lock(trace, graph)
    connect_threads(trace, graph, low, high)
    connect_device(trace, links, window, graph)
    if not trace.synchronizations:
        connect_inferred(structure or find_structure(trace, links, low, high), graph)
    return graph


def longest_path(graph: PathGraph) -> list[Edge]:
    """Edges of the longest path of an acyclic graph, by dynamic programming in topological order.

    Nodes on a circle (clocks that contradict each other) are left out. Of several paths as long: into each
    node the edge that was found first, and the end that comes first.
    """
    count = len(graph.rows)
    incoming: list[list[Edge]] = [[] for _ in range(count)]
    outgoing: list[list[int]] = [[] for _ in range(count)]
    for edge in graph.edges.values():
        incoming[edge.end].append(edge)
        outgoing[edge.begin].append(edge.end)
    length, through = [0] * count, list[Edge | None]([None] * count)
    best, farthest = NONE, -1
    for node in in_order(outgoing):
        for place, edge in enumerate(incoming[node]):
            total = length[edge.begin] + edge.nanoseconds
            if place == 0 or total > length[node]:
                length[node], through[node] = total, edge
        if length[node] > farthest:
            best, farthest = node, length[node]
    path: list[Edge] = []
    edge_in = through[best] if best != NONE else None
    while edge_in is not None:
        path.append(edge_in)
        edge_in = through[edge_in.begin]
    return path[::-1]


class _Spent:
    """What edges' times went to, by the names of the events that they belong to."""

    def __init__(self, trace: Trace) -> None:
        names = trace.events.names
        self._device = [
            BoundBy.COMMUNICATION if is_communication(name) else BoundBy.COMPUTE for name in names
        ]
        self._host = [BoundBy.DATA if is_data_loading(name) else BoundBy.HOST for name in names]

    def on(self, edge: Edge, code: int, is_device: bool) -> BoundBy:
        """What an edge's time went to, by the code of its event's name and whether it ran on a device."""
        if edge.kind is EdgeKind.WORK and edge.row == NONE:
            return BoundBy.HOST
        if edge.kind is EdgeKind.WORK:
            return self._device[code] if is_device else self._host[code]
        return _OF_ORDER.get(edge.kind, BoundBy.NOTHING)


_OF_ORDER = {EdgeKind.STREAM_ORDER: BoundBy.BETWEEN_KERNELS, EdgeKind.LAUNCH: BoundBy.LAUNCH}
