"""From what ran when to the nodes of a Chakra trace.

A node starts when all that it depends on has ended. Where it was later than that, the time between is written
as a node of its own, a gap, so that the longest path through the nodes is the schedule. Times are rounded to
whole microseconds at their instants, not as durations: rounding keeps order, so it keeps every maximum, and
the path is as exact with ten thousand short nodes as with one long one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from perfcast.errors import TraceError
from perfcast.traces.chakra.collectives import groups_text
from perfcast.traces.chakra.trace import (
    ChakraAttribute,
    ChakraGroup,
    ChakraNode,
    ChakraTensors,
    ChakraTrace,
    NodeType,
)
from perfcast.traces.marks import GROUPS_NODE
from perfcast.units import GIGA, MICRO

#: Version of the schema that is written, as MLCommons' own tools name it.
SCHEMA_VERSION = "0.0.4"
#: Names of what stands between nodes.
GAP, WAIT_FOR_RANKS = "gap", "wait for other ranks"


@dataclass(frozen=True)
class Planned:
    """A node of a schedule.

    Attributes:
        after: Places of nodes that end before it starts.
        is_on_host: Whether a processor runs it.
        ready_seconds: From when it waited for other ranks, if it did; None: it did not.
    """

    name: str
    start_seconds: float
    end_seconds: float
    after: tuple[int, ...] = ()
    type: NodeType = NodeType.COMPUTE
    is_on_host: bool = False
    ready_seconds: float | None = None
    inputs: ChakraTensors | None = None
    outputs: ChakraTensors | None = None
    attributes: tuple[ChakraAttribute, ...] = field(default=())


def build_chakra(
    source: str,
    rank: int,
    planned: Sequence[Planned],
    groups: Sequence[ChakraGroup] = (),
    attributes: Sequence[ChakraAttribute] = (),
    *,
    with_waits: bool = True,
) -> ChakraTrace:
    """A rank's nodes, numbered so that each stands behind all that it depends on.

    Args:
        groups: Process groups that the rank is in; they become the first node.
        with_waits: Whether waiting for other ranks is written too. A reader that plays all ranks together
            finds these waits itself; without them one rank's nodes alone are shorter than its schedule.

    Raises:
        TraceError: Nodes that depend on each other in a circle.
    """
    origin = min((one.start_seconds for one in planned), default=0.0)
    writer = _Writer(origin, with_waits)
    if groups:
        writer.add_groups(groups)
    for place in _order(source, planned):
        writer.add(place, planned[place])
    return ChakraTrace(source, tuple(writer.nodes), SCHEMA_VERSION, tuple(attributes), rank)


def _order(source: str, planned: Sequence[Planned]) -> list[int]:
    """Places by start, each behind what it depends on."""
    left = [len(set(one.after)) for one in planned]
    followers: list[list[int]] = [[] for _ in planned]
    for place, one in enumerate(planned):
        for awaited in set(one.after):
            followers[awaited].append(place)
    heap = [(planned[place].start_seconds, place) for place, count in enumerate(left) if not count]
    heapify(heap)
    order = []
    while heap:
        _, place = heappop(heap)
        order.append(place)
        for follower in followers[place]:
            left[follower] -= 1
            if not left[follower]:
                heappush(heap, (planned[follower].start_seconds, follower))
    if len(order) < len(planned):
        raise TraceError(f"{source}: nodes depend on each other in a circle")
    return order


class _Writer:
    """Writes nodes, and gaps before those that start later than what they depend on ends."""

    def __init__(self, origin_seconds: float, with_waits: bool) -> None:
        self.nodes: list[ChakraNode] = []
        self._origin, self._with_waits = origin_seconds, with_waits
        self._ids: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def add_groups(self, groups: Sequence[ChakraGroup]) -> None:
        """What nothing waits for and what waits for nothing: the list of process groups."""
        self._append(
            GROUPS_NODE,
            NodeType.METADATA,
            (),
            0,
            0,
            inputs=ChakraTensors(groups_text(groups), "[[]]", "['String']"),
            attributes=(ChakraAttribute("is_cpu_op", "bool", True),),
        )

    def add(self, place: int, one: Planned) -> None:
        """A node, and the gap before it."""
        start, end = self._micros(one.start_seconds), self._micros(one.end_seconds)
        deps = tuple(sorted({self._ids[awaited] for awaited in one.after}))
        done = max((self._ends[awaited] for awaited in one.after), default=0)
        ready = start if one.ready_seconds is None else min(start, self._micros(one.ready_seconds))
        if ready > done:
            deps = (self._add_gap(GAP, one.is_on_host, deps, done, ready),)
        if start > max(ready, done) and self._with_waits:
            deps = (self._add_gap(WAIT_FOR_RANKS, one.is_on_host, deps, max(ready, done), start),)
        own = (
            ChakraAttribute("is_cpu_op", "bool", one.is_on_host),
            ChakraAttribute("duration_nanos", "uint64", self._nanos(one)),
        )
        self._ids[place] = self._append(
            one.name,
            one.type,
            deps,
            start,
            max(0, end - start),
            inputs=one.inputs,
            outputs=one.outputs,
            attributes=(*own, *one.attributes),
        )
        self._ends[place] = end

    def _add_gap(self, name: str, is_on_host: bool, deps: tuple[int, ...], start: int, end: int) -> int:
        """A gap holds up what follows but no processor, accelerator or network."""
        kinds = {"is_cpu_op": is_on_host, "is_timer_op": True}
        attributes = tuple(ChakraAttribute(kind, "bool", value) for kind, value in kinds.items())
        return self._append(name, NodeType.COMPUTE, deps, start, end - start, attributes=attributes)

    def _append(
        self,
        name: str,
        type_: NodeType,
        deps: tuple[int, ...],
        start_micros: int,
        duration_micros: int,
        *,
        inputs: ChakraTensors | None = None,
        outputs: ChakraTensors | None = None,
        attributes: tuple[ChakraAttribute, ...] = (),
    ) -> int:
        number = len(self.nodes)
        node = ChakraNode(
            number, name, type_, deps, (), start_micros, duration_micros, inputs, outputs, attributes
        )
        self.nodes.append(node)
        return number

    def _micros(self, seconds: float) -> int:
        return round((seconds - self._origin) / MICRO)

    def _nanos(self, one: Planned) -> int:
        return max(0, round((one.end_seconds - one.start_seconds) * GIGA))
