"""When each storage of a graph is made, last used and freed, as columns; and sums over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Integers
from perfcast.core.graph import Graph


@dataclass(frozen=True)
class Lifetimes:
    """One entry per storage, as indices of nodes; all arrays have shape [storages].

    Attributes:
        num_nodes: Length of a timeline, at least 1.
        sizes: Bytes.
        created: Node that makes it; -1 where it was there before.
        freed: Last node before the program drops it; the last of all where it outlives the step.
        last_used: Last node that reads or writes it; -1 where none does.
        needed_until: Last node at which it must exist: like ``freed``, but what the step makes and drops
            may go after its last use.
    """

    num_nodes: int
    sizes: Integers
    created: Integers
    freed: Integers
    last_used: Integers
    needed_until: Integers

    def held(self, members: Flags | None = None, *, until: Integers | None = None) -> Integers:
        """Bytes held while each node runs, shape [num_nodes].

        Args:
            members: Storages that count, shape [storages]; all by default.
            until: Last node of each, shape [storages]; ``freed`` by default.
        """
        chosen = np.ones(len(self.sizes), dtype=bool) if members is None else members
        last = (self.freed if until is None else until)[chosen]
        sizes = self.sizes[chosen]
        change = np.zeros(self.num_nodes + 1, dtype=np.int64)
        np.add.at(change, np.maximum(self.created[chosen], 0), sizes)
        np.add.at(change, np.minimum(last, self.num_nodes - 1) + 1, -sizes)
        timeline: Integers = np.cumsum(change)[: self.num_nodes]
        return timeline


def find_lifetimes(graph: Graph) -> Lifetimes:
    """Columns of a graph's storages."""
    num_nodes = max(len(graph.nodes), 1)
    created = np.array([s.created_by for s in graph.storages], dtype=np.int64)
    last_used = _last_use(graph)
    end = num_nodes - 1
    freed = np.array(
        [end if s.freed_after is None else s.freed_after for s in graph.storages], dtype=np.int64
    )
    freed = np.maximum(freed, created)
    stays = (created < 0) | np.array([s.freed_after is None for s in graph.storages], dtype=bool)
    return Lifetimes(
        num_nodes=num_nodes,
        sizes=np.array([s.num_bytes for s in graph.storages], dtype=np.int64),
        created=created,
        freed=freed,
        last_used=last_used,
        needed_until=np.where(stays, freed, np.minimum(freed, np.maximum(last_used, created))),
    )


def _last_use(graph: Graph) -> Integers:
    last_used = np.full(len(graph.storages), -1, dtype=np.int64)
    storage_of = [tensor.storage for tensor in graph.tensors]
    for index, node in enumerate(graph.nodes):
        for tensor in (*node.inputs, *node.outputs):
            last_used[storage_of[tensor]] = index
    return last_used
