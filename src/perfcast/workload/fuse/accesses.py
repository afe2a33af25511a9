"""Who reads and writes which storage, and hence which node must follow which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.tensor import Category
from perfcast.workload.fuse.roles import Role, role_of

#: A value smaller than this is not worth a joint kernel (Inductor's ``score_fusion_memory_threshold``).
_MIN_SHARED_BYTES = 10


@dataclass(frozen=True)
class Accesses:
    """A graph's dependencies, one entry per node.

    Attributes:
        roles: Role in a fused kernel; None for a kernel of its own.
        regions: Which run of nodes of one phase the node belongs to; each is compiled apart.
        predecessors: Nodes that it must follow: writers of what it reads or writes, readers of what it
            writes.
        producers: Of these, the writers of what it reads.
        readers: For each storage of which several nodes read the whole, these nodes.
    """

    roles: list[Role | None]
    regions: list[int]
    predecessors: list[list[int]]
    producers: list[list[int]]
    readers: list[list[int]]


def read_accesses(graph: Graph, phases: frozenset[Phase]) -> Accesses:
    """Walk the nodes once; nodes outside ``phases`` have no role."""
    regions = phase_runs(graph)
    storage_of = [tensor.storage for tensor in graph.tensors]
    is_shareable = _whole_tensors(graph)
    writer: dict[int, int] = {}
    reading: dict[int, list[int]] = {}
    whole_readers: dict[int, list[int]] = {}
    predecessors: list[list[int]] = []
    producers: list[list[int]] = []
    for index, node in enumerate(graph.nodes):
        written = {storage_of[t] for t in written_tensors(graph, node)}
        read = {storage_of[t] for t in node.inputs}
        produced_by = {writer[s] for s in read if s in writer}
        before = produced_by | {writer[s] for s in written if s in writer}
        for storage in written:
            before.update(reading.pop(storage, ()))
            writer[storage] = index
        for storage in read - written:
            reading.setdefault(storage, []).append(index)
        for tensor in dict.fromkeys(node.inputs):
            if is_shareable[tensor]:
                whole_readers.setdefault(storage_of[tensor], []).append(index)
        predecessors.append(sorted(before))
        producers.append(sorted(produced_by))
    readers = [nodes for nodes in whole_readers.values() if len(nodes) > 1]
    return Accesses(_roles(graph, phases, regions), regions, predecessors, producers, readers)


def written_tensors(graph: Graph, node: Node) -> tuple[int, ...]:
    """Outputs; an operator that returns nothing writes its first inputs (``_foreach_add_``)."""
    return node.outputs or node.inputs[: len(graph.operations[node.operation].outputs)]


def _whole_tensors(graph: Graph) -> list[bool]:
    """Which tensors are all of a storage that is worth sharing."""
    num_bytes = {id(kind): kind.num_bytes for kind in {id(t.type): t.type for t in graph.tensors}.values()}
    sizes = [storage.num_bytes for storage in graph.storages]
    return [num_bytes[id(t.type)] >= max(sizes[t.storage], _MIN_SHARED_BYTES) for t in graph.tensors]


def phase_runs(graph: Graph) -> list[int]:
    """For each node, which run of consecutive nodes of one phase it belongs to."""
    regions: list[int] = []
    previous: Phase | None = None
    region = -1
    for node in graph.nodes:
        region += node.phase is not previous
        previous = node.phase
        regions.append(region)
    return regions


def _roles(graph: Graph, phases: frozenset[Phase], regions: list[int]) -> list[Role | None]:
    by_operation = [role_of(operation) for operation in graph.operations]
    roles = [by_operation[node.operation] if node.phase in phases else None for node in graph.nodes]
    for index in _gradient_accumulations(graph, regions):
        roles[index] = None
    return roles


def _gradient_accumulations(graph: Graph, regions: list[int]) -> Iterator[int]:
    """Additions to a gradient of an earlier micro-batch: autograd does them, outside compiled code."""
    earlier = [
        storage.category == Category.GRADIENT
        and (regions[storage.created_by] if storage.created_by >= 0 else -1)
        for storage in graph.storages
    ]
    for index, node in enumerate(graph.nodes):
        for tensor in written_tensors(graph, node):
            made_in = earlier[graph.tensors[tensor].storage]
            if made_in is not False and made_in < regions[index]:
                yield index
                break
