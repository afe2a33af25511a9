"""Biases of convolutions as additions of their own, which fuse with what follows.

Inductor calls cuDNN without the bias and adds it in the next kernel (torch/_inductor/kernel/conv.py,
``convolution``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfcast.core.convolution import parse_convolution
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, Storage, Tensor


def split_biases(graph: Graph, phases: frozenset[Phase]) -> Graph:
    """The graph with each convolution's bias in these phases added by a node behind it."""
    biased = {
        index: stripped
        for index, operation in enumerate(graph.operations)
        if (stripped := _without_bias(operation)) is not None
    }
    if not biased:
        return graph
    writer = _Writer(graph, biased, phases)
    return writer.finish()


def _without_bias(operation: Operation) -> Operation | None:
    """A forward without its bias; None where it has none."""
    geometry = operation.attribute("geometry") if operation.attributes else None
    if operation.kind is not OperationKind.CONVOLUTION or not isinstance(geometry, str):
        return None
    described = parse_convolution(geometry)
    if not described.has_bias or "backward" in operation.name or len(operation.inputs) != 3:
        return None
    attributes = dict(operation.attributes) | {"geometry": str(replace(described, has_bias=False))}
    return replace(
        operation,
        inputs=operation.inputs[:2],
        memory_traffic_bytes=operation.memory_traffic_bytes - operation.inputs[2].num_bytes,
        attributes=tuple(attributes.items()),
    )


@dataclass(frozen=True)
class _Addition:
    """The operations that a biased convolution becomes."""

    convolution: int
    addition: int


class _Writer:
    def __init__(self, graph: Graph, biased: dict[int, Operation], phases: frozenset[Phase]) -> None:
        self._graph, self._phases = graph, phases
        self._operations = list(graph.operations)
        self._tensors, self._storages = list(graph.tensors), list(graph.storages)
        self._split = {index: self._enter(index, stripped) for index, stripped in biased.items()}

    def _enter(self, index: int, stripped: Operation) -> _Addition:
        old = self._graph.operations[index]
        made, bias = old.outputs[0], old.inputs[2]
        addition = Operation(
            kind=OperationKind.ELEMENTWISE,
            name="add",
            inputs=(made, bias),
            outputs=(made,),
            compute_dtype=made.dtype,
            flops=made.num_elements,
            executed_flops=made.num_elements,
            memory_traffic_bytes=2 * made.num_bytes + bias.num_bytes,
        )
        self._operations += [stripped, addition]
        return _Addition(len(self._operations) - 2, len(self._operations) - 1)

    def finish(self) -> Graph:
        nodes: list[Node] = []
        last: list[int] = []
        for node in self._graph.nodes:
            split = self._split.get(node.operation) if node.phase in self._phases else None
            nodes += [node] if split is None else self._both(node, split, len(nodes))
            last.append(len(nodes) - 1)
        count = len(self._graph.storages)
        moved = [_moved(storage, last) for storage in self._storages[:count]]
        return replace(
            self._graph,
            nodes=tuple(nodes),
            operations=tuple(self._operations),
            tensors=tuple(self._tensors),
            storages=(*moved, *self._storages[count:]),
        )

    def _both(self, node: Node, split: _Addition, index: int) -> list[Node]:
        """The convolution, which writes a tensor of its own, and the addition, which writes the old one."""
        images, weight, bias = node.inputs
        made = self._tensors[node.outputs[0]].type
        self._storages.append(Storage(made.num_bytes, Category.TEMPORARY, index, index + 1))
        self._tensors.append(Tensor(made, len(self._storages) - 1))
        plain = len(self._tensors) - 1
        return [
            replace(node, operation=split.convolution, inputs=(images, weight), outputs=(plain,)),
            replace(node, operation=split.addition, inputs=(plain, bias), num_views=0, num_calls=0),
        ]


def _moved(storage: Storage, last: list[int]) -> Storage:
    """Moments in the new nodes: what a convolution made is made by its addition."""
    return replace(
        storage,
        created_by=last[storage.created_by] if storage.created_by >= 0 else storage.created_by,
        freed_after=None if storage.freed_after is None else _at(last, storage.freed_after),
    )


def _at(last: list[int], node: int) -> int:
    return last[node] if node >= 0 else node
