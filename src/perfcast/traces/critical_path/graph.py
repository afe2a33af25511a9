"""The graph behind a critical path: instants at which events start and end, and what each waits for.

Nodes are the starts and ends of operators, runtime calls and device works of a window. Edges carry time:

* WORK: an operator, call or device work, or the stretch of an operator between two inner ones;
* HOST_ORDER: operators of one thread in turn, and calls that share the runtime's lock (no time);
* LAUNCH: from a launch to its work on an idle stream;
* STREAM_ORDER: from a work to the next on its stream;
* SYNC: a stream or the host waits for a work (no time).

The rules are those of HolisticTraceAnalysis (critical path, per rank). Times are whole nanoseconds, so that
paths of equal length are equal and ties fall as there: to the edge that was found first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np

from perfcast.traces.events import CALL_CATEGORIES, DEVICE_CATEGORIES, NONE, Category, Events, Trace
from perfcast.units import GIGA


class EdgeKind(Enum):
    """What an edge stands for."""

    WORK = "work"
    HOST_ORDER = "host order"
    LAUNCH = "launch"
    STREAM_ORDER = "stream order"
    SYNC = "synchronisation"

    __hash__ = object.__hash__


#: Kinds that take no time.
WEIGHTLESS = frozenset({EdgeKind.HOST_ORDER, EdgeKind.SYNC})


class Edge(NamedTuple):
    """From one node to another; ``row`` is the event that the time belongs to, or -1."""

    begin: int
    end: int
    kind: EdgeKind
    nanoseconds: int
    row: int


@dataclass
class PathGraph:
    """Nodes by number, in order of time; edges in the order in which they were found.

    Attributes:
        rows: The event of each node.
        moments: Of each node, in nanoseconds since the trace's first event.
        is_start: Whether a node starts its event.
        start_of, end_of: The nodes of each row.
        edges: By (begin, end); a later edge between the same nodes replaces the earlier one's meaning but
            keeps its place.
    """

    rows: list[int]
    moments: list[int]
    is_start: list[bool]
    start_of: dict[int, int]
    end_of: dict[int, int]
    edges: dict[tuple[int, int], Edge] = field(default_factory=dict)

    def connect(
        self, begin: int, end: int, kind: EdgeKind, row: int = NONE, *, weightless: bool = False
    ) -> None:
        """Add an edge; one that would go back in time (children that end after their parents) takes none."""
        time = self.moments[end] - self.moments[begin]
        spends = time > 0 and not weightless and kind not in WEIGHTLESS
        self.edges[begin, end] = Edge(begin, end, kind, time if spends else 0, row)


@dataclass(frozen=True)
class Window:
    """The rows of a window that count: those of hosts, and device rows with their calls."""

    host_rows: Sequence[int]
    device_rows: Sequence[int]
    call_of: Mapping[int, int]


def nanoseconds(events: Events, rows: Sequence[int]) -> tuple[list[int], list[int]]:
    """Starts and ends of rows in whole nanoseconds."""
    chosen = np.asarray(rows, dtype=np.int64)
    starts = np.rint(events.start_seconds[chosen] * GIGA).astype(np.int64)
    ends = np.rint(events.end_seconds[chosen] * GIGA).astype(np.int64)
    return starts.tolist(), ends.tolist()


def find_window(trace: Trace, low: float, high: float, calls: Mapping[int, int]) -> Window:
    """Host events that start within the window and last, and device works whose calls do.

    Args:
        calls: The launching call of each device row.
    """
    events = trace.events
    within = (events.start_seconds >= low) & (events.start_seconds <= high)
    lasts = events.end_seconds > events.start_seconds
    hosts = np.flatnonzero(within & lasts & events.is_in(Category.OPERATOR, *CALL_CATEGORIES))
    devices = np.flatnonzero(events.is_in(*DEVICE_CATEGORIES))
    counts = (within & lasts).tolist()
    kept = [row for row in devices.tolist() if calls.get(row, NONE) != NONE and counts[calls[row]]]
    return Window(hosts.tolist(), kept, {row: calls[row] for row in kept})


def place_nodes(trace: Trace, window: Window) -> PathGraph:
    """A start and an end for each event, in order of time, then of the file."""
    events = trace.events
    rows = [*window.host_rows, *window.device_rows]
    starts, ends = nanoseconds(events, rows)
    orders = events.orders[np.asarray(rows, dtype=np.int64)].tolist() if rows else []
    marks = [(s, o, 0, r) for s, o, r in zip(starts, orders, rows, strict=True)]
    marks += [(e, o, 1, r) for e, o, r in zip(ends, orders, rows, strict=True)]
    marks.sort()
    start_of: dict[int, int] = {}
    end_of: dict[int, int] = {}
    for node, (_, _, is_end, row) in enumerate(marks):
        (end_of if is_end else start_of)[row] = node
    return PathGraph(
        [mark[3] for mark in marks],
        [mark[0] for mark in marks],
        [not mark[2] for mark in marks],
        start_of,
        end_of,
    )
