"""When each storage of a graph is alive, and the largest sum of what is.

A storage lives from the node that creates it (from the start, if it was there before) until the program
drops its last reference, or, as a compiler could arrange it, until the last node that reads or writes
it. Parameters, buffers, inputs and optimizer state live throughout; views share their storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from perfcast.core.forecast.device import MemoryForecast, TensorInterval
from perfcast.core.graph import Graph, Node
from perfcast.core.same import Same
from perfcast.core.tensor import Category, Storage, Tensor
from perfcast.memory_use.alive import alive_at
from perfcast.memory_use.by_module import storage_modules, timeline_by_module
from perfcast.memory_use.lifetimes import Lifetimes, find_lifetimes


def estimate_memory(graph: Graph, capacity_bytes: int) -> MemoryForecast:
    """Peak, its place, what it consists of, and the timeline of a graph's memory.

    A captured graph holds the same on every device: what was found for one is kept for the others.
    """
    parts = (Same(graph.nodes), Same(graph.tensors), Same(graph.storages))
    held = _Held(*parts, tuple(operation.name for operation in graph.operations), graph)
    return replace(_estimate(held), capacity_bytes=capacity_bytes)


@dataclass(frozen=True)
class _Held:
    """What decides the memory of a graph."""

    nodes: Same[tuple[Node, ...]]
    tensors: Same[tuple[Tensor, ...]]
    storages: Same[tuple[Storage, ...]]
    names: tuple[str, ...]
    graph: Graph = field(compare=False)


@lru_cache(maxsize=4)
def _estimate(held: _Held) -> MemoryForecast:
    """Without a capacity."""
    graph = held.graph
    lifetimes = find_lifetimes(graph)
    by_category = {}
    for category in Category.ALL:
        members = np.array([s.category == category for s in graph.storages], dtype=bool)
        if members.any():
            by_category[category] = lifetimes.held(members)
    total = lifetimes.held()
    peak_node = int(np.argmax(total))
    peak = graph.nodes[peak_node] if graph.nodes else None
    modules = storage_modules(graph)
    intervals = _intervals(graph, lifetimes, modules)
    return MemoryForecast(
        peak_bytes=int(total[peak_node]),
        peak_by_last_use_bytes=int(lifetimes.held(until=lifetimes.needed_until).max()),
        peak_node=peak_node,
        peak_operation=graph.operations[peak.operation].name if peak else "",
        peak_module=peak.module if peak else "",
        peak_phase=peak.phase.value if peak else "",
        bytes_by_category={c: int(timeline[peak_node]) for c, timeline in by_category.items()},
        timeline_bytes=tuple(total.tolist()),
        timeline_bytes_by_category={c: tuple(t.tolist()) for c, t in by_category.items()},
        timeline_bytes_by_module=timeline_by_module(graph, lifetimes, modules),
        phase_starts=_phase_starts(graph),
        intervals=intervals,
        alive_at_peak=alive_at(intervals, peak_node),
        capacity_bytes=0,
    )


def peak_bytes(graph: Graph) -> int:
    """The peak alone, which takes a fraction of the time."""
    return int(find_lifetimes(graph).held().max())


def _phase_starts(graph: Graph) -> tuple[tuple[str, int], ...]:
    """First node of each stretch of nodes of one phase, with the phase."""
    phases = [node.phase for node in graph.nodes]
    return tuple((phase.value, i) for i, phase in enumerate(phases) if i == 0 or phase is not phases[i - 1])


def _intervals(graph: Graph, lifetimes: Lifetimes, modules: list[str]) -> tuple[TensorInterval, ...]:
    names = [operation.name for operation in graph.operations]
    intervals = []
    columns = zip(
        graph.storages,
        modules,
        lifetimes.freed.tolist(),
        lifetimes.last_used.tolist(),
        strict=True,
    )
    for storage, module, end, last in columns:
        if storage.num_bytes == 0:
            continue
        start = storage.created_by
        name = names[graph.nodes[start].operation] if start >= 0 else ""
        intervals.append(
            TensorInterval(
                storage.num_bytes, storage.category, start, name, module, end, last, storage.created_at
            )
        )
    return tuple(intervals)
