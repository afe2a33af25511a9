"""When each storage of a graph is alive, and the largest sum of what is.

A storage lives from the node that creates it (from the start, if it was there before) until the program
drops its last reference, or, as a compiler could arrange it, until the last node that reads or writes
it. Parameters, buffers, inputs and optimizer state live throughout; views share their storage.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perfcast.core.forecast import MemoryForecast, TensorInterval
from perfcast.core.graph import Graph
from perfcast.core.tensor import Category


def estimate_memory(graph: Graph, capacity_bytes: int) -> MemoryForecast:
    """Peak, its place, and the timeline of a graph's memory."""
    num_nodes = max(len(graph.nodes), 1)
    sizes = np.array([s.num_bytes for s in graph.storages], dtype=np.int64)
    created = np.array([s.created_by for s in graph.storages], dtype=np.int64)
    last_used = _last_use(graph)
    end = num_nodes - 1
    freed = np.array(
        [end if s.freed_after is None else s.freed_after for s in graph.storages], dtype=np.int64
    )
    freed = np.maximum(freed, created)
    outlives = np.array([s.freed_after is None for s in graph.storages], dtype=bool)
    idle_after = np.where(outlives | (created < 0), freed, np.minimum(freed, np.maximum(last_used, created)))

    by_category = {}
    for category in Category.ALL:
        members = np.array([s.category == category for s in graph.storages], dtype=bool)
        if members.any():
            by_category[category] = _held(sizes[members], created[members], freed[members], num_nodes)
    total = np.sum(list(by_category.values()), axis=0) if by_category else np.zeros(num_nodes, dtype=np.int64)
    peak_node = int(np.argmax(total))
    peak = graph.nodes[peak_node] if graph.nodes else None
    return MemoryForecast(
        peak_bytes=int(total[peak_node]),
        peak_by_last_use_bytes=int(_held(sizes, created, idle_after, num_nodes).max()),
        peak_node=peak_node,
        peak_operation=graph.operations[peak.operation].name if peak else "",
        peak_module=peak.module if peak else "",
        peak_phase=peak.phase.value if peak else "",
        bytes_by_category={c: int(timeline[peak_node]) for c, timeline in by_category.items()},
        timeline_bytes=tuple(total.tolist()),
        timeline_bytes_by_category={c: tuple(t.tolist()) for c, t in by_category.items()},
        intervals=_intervals(graph, created, freed, last_used),
        capacity_bytes=capacity_bytes,
    )


def _held(
    sizes: NDArray[np.int64], created: NDArray[np.int64], freed: NDArray[np.int64], num_nodes: int
) -> NDArray[np.int64]:
    """Bytes held while each node runs, of storages alive from ``created`` to ``freed`` inclusive."""
    change = np.zeros(num_nodes + 1, dtype=np.int64)
    np.add.at(change, np.maximum(created, 0), sizes)
    np.add.at(change, np.minimum(freed, num_nodes - 1) + 1, -sizes)
    return np.cumsum(change)[:num_nodes]


def _last_use(graph: Graph) -> NDArray[np.int64]:
    last_used = np.full(len(graph.storages), -1, dtype=np.int64)
    storage_of = [tensor.storage for tensor in graph.tensors]
    for index, node in enumerate(graph.nodes):
        for tensor in node.inputs:
            last_used[storage_of[tensor]] = index
        for tensor in node.outputs:
            last_used[storage_of[tensor]] = index
    return last_used


def _intervals(
    graph: Graph, created: NDArray[np.int64], freed: NDArray[np.int64], last_used: NDArray[np.int64]
) -> tuple[TensorInterval, ...]:
    names = [operation.name for operation in graph.operations]
    intervals = []
    columns = zip(graph.storages, created.tolist(), freed.tolist(), last_used.tolist(), strict=True)
    for storage, start, end, last in columns:
        if storage.num_bytes == 0:
            continue
        node = graph.nodes[start] if start >= 0 else None
        name, module = (names[node.operation], node.module) if node else ("", "")
        intervals.append(TensorInterval(storage.num_bytes, storage.category, start, name, module, end, last))
    return tuple(intervals)
