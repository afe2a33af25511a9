"""Memory of each operator, whole: what it reads, what it makes, what of that goes with it and what stays.

    whole = storages that it reads or writes in place + storages that it makes

each storage once, however many views of it there are. Of what it makes, some is dropped before the next
operator runs (temporaries), some stays beyond the forward (kept for the backward). What is alive while it
runs holds all that and everything that waits: parameters, states, what other layers kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.graph import Graph, Phase
from perfcast.memory_use.lifetimes import find_lifetimes


@dataclass(frozen=True, slots=True)
class OperatorMemory:
    """Of one node of a graph, in bytes.

    Attributes:
        node: Index of the node.
        input_bytes: Storages that were there before and that it reads or writes in place.
        output_bytes: Storages that it makes and that outlive it.
        temporary_bytes: Storages that it makes and that are dropped before the next node.
        kept_bytes: Of what a forward node makes, that which the backward still finds.
        live_bytes: All that is alive while it runs.
    """

    node: int
    input_bytes: int
    output_bytes: int
    temporary_bytes: int
    kept_bytes: int
    live_bytes: int

    @property
    def whole_bytes(self) -> int:
        """What the operator itself touches."""
        return self.input_bytes + self.output_bytes + self.temporary_bytes


def operator_memory(graph: Graph) -> tuple[OperatorMemory, ...]:
    """One entry for each node, in program order."""
    lifetimes = find_lifetimes(graph)
    live = lifetimes.held()
    sizes, created, freed = (
        values.tolist() for values in (lifetimes.sizes, lifetimes.created, lifetimes.freed)
    )
    turns = _next_backward(graph)
    made: dict[int, list[int]] = {}
    for storage, node in enumerate(created):
        made.setdefault(node, []).append(storage)
    found = []
    for index, node in enumerate(graph.nodes):
        touched = {graph.tensors[tensor].storage for tensor in (*node.inputs, *node.outputs)}
        own = made.get(index, [])
        dropped = [storage for storage in own if freed[storage] <= index]
        waits = [s for s in own if node.phase is Phase.FORWARD and freed[s] >= turns[index]]
        found.append(
            OperatorMemory(
                node=index,
                input_bytes=sum(sizes[s] for s in touched if created[s] != index),
                output_bytes=sum(sizes[s] for s in own) - sum(sizes[s] for s in dropped),
                temporary_bytes=sum(sizes[s] for s in dropped),
                kept_bytes=sum(sizes[s] for s in waits),
                live_bytes=int(live[index]),
            )
        )
    return tuple(found)


def _next_backward(graph: Graph) -> list[int]:
    """Of each node the next one of a backward, or one beyond all nodes, which nothing outlives."""
    found, turn = [0] * len(graph.nodes), len(graph.nodes)
    for index in range(len(graph.nodes) - 1, -1, -1):
        if graph.nodes[index].phase is Phase.BACKWARD:
            turn = index
        found[index] = turn
    return found
