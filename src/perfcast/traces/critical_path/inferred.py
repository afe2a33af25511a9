"""Synchronisations of a critical path where a recording has no events for them: as the clock allows."""

from __future__ import annotations

from perfcast.traces.critical_path.graph import EdgeKind, PathGraph
from perfcast.traces.events import NONE
from perfcast.traces.timeline.structure import Structure


def connect_inferred(structure: Structure, graph: PathGraph) -> None:
    """Join works to what waited for them: works of other streams, and calls of the host."""
    launched, waits = structure.launched, structure.waits
    for work, awaited in enumerate(waits.of_works):
        for other in awaited:
            _connect(graph, launched.rows[other], graph.start_of.get(launched.rows[work], NONE))
    for call, awaited in waits.of_calls.items():
        for other in awaited:
            _connect(graph, launched.rows[other], graph.end_of.get(call, NONE))


def _connect(graph: PathGraph, row: int, node: int) -> None:
    """An edge from a work's end, if both are in the window and in order."""
    begin = graph.end_of.get(row, NONE)
    if NONE not in (begin, node) and begin < node:
        graph.connect(begin, node, EdgeKind.SYNC)
