"""Nodes of one part and phase → calls in order, with the tensor-parallel communication between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.tensor import Category
from perfcast.core.work import Call, Calls, Stream
from perfcast.workload.shard.parts import Parts
from perfcast.workload.shard.state import InsertedCollective
from perfcast.workload.shard.tensor import Cutting


@dataclass(frozen=True)
class CallSequence:
    """Calls, and where each node is among them."""

    calls: Calls
    places: Mapping[int, int]


@dataclass(frozen=True)
class Sequencer:
    """Builds the sequences of a cut graph.

    Attributes:
        passes: Node → kernels that follow it (over gradients that it makes ready).
        weight_gradients: Nodes that only the optimizer waits for.
        by_producer, by_consumer: Node → the collectives behind it, and those that it waits for.
        late: Collectives that are issued by their consumers: in the backward, of what the forward made.
    """

    cutting: Cutting
    parts: Parts
    plan: Plan
    passes: Mapping[int, tuple[Operation, ...]]
    weight_gradients: frozenset[int]
    by_producer: Mapping[int, tuple[int, ...]]
    by_consumer: Mapping[int, tuple[int, ...]]
    late: frozenset[int]

    def build(self, part: int, phase: Phase) -> CallSequence:
        """The calls of a part in a phase."""
        nodes = [i for i, p in enumerate(self.parts.of_node) if p == part]
        nodes = [i for i in nodes if self.cutting.graph.nodes[i].phase is phase]
        if self.plan.overlaps_tensor:
            nodes = self._put_off_weight_gradients(nodes)
        return _Tape(self, set(nodes)).run(nodes)

    def _put_off_weight_gradients(self, nodes: list[int]) -> list[int]:
        """A product whose sum is exchanged goes before that of the weight, which hides the collective."""
        order = list(nodes)
        for at in range(1, len(order)):
            before, node = order[at - 1], order[at]
            if node in self.by_producer and before in self.weight_gradients and self._is_product(before):
                order[at - 1], order[at] = node, before
        return order

    def _is_product(self, node: int) -> bool:
        return self.cutting.operations[node].kind is OperationKind.MATMUL

    def module(self, node: int) -> str:
        """Path within the block."""
        path, container = self.cutting.graph.nodes[node].module, self.parts.container
        if container and path.startswith(f"{container}."):
            return path[len(container) + 1 :].partition(".")[2]
        return path

    def operation_of(self, collective: InsertedCollective) -> Operation:
        """The collective among the tensor-parallel ranks."""
        ranks = group_of(self.plan, "tensor")
        return collective_operation(
            collective.name,
            collective.tensor.num_bytes,
            ranks,
            collective.tensor.dtype,
            num_groups=self.plan.world_size // len(ranks),
        )


class _Tape:
    """A sequence in the making."""

    def __init__(self, sequencer: Sequencer, nodes: set[int]) -> None:
        self._of, self._nodes = sequencer, nodes
        self._calls: list[Call] = []
        self._places: dict[int, int] = {}
        self._issued: dict[int, int] = {}
        self._awaited: list[int] = []
        self._last = -1

    def run(self, nodes: Sequence[int]) -> CallSequence:
        """The calls of these nodes."""
        for node in nodes:
            for number in self._of.by_consumer.get(node, ()):
                if number in self._of.late:
                    self._issue(number)
                if number in self._issued and self._issued[number] not in self._awaited:
                    self._awaited.append(self._issued[number])
            self._compute(node)
            for number in self._of.by_producer.get(node, ()):
                self._issue(number)
        self._finish()
        return CallSequence(tuple(self._calls), self._places)

    def _compute(self, node: int) -> None:
        source = self._of.cutting.graph.nodes[node]
        operation = self._of.cutting.operations[node]
        call = Call(
            operation,
            after=tuple(sorted(self._awaited)),
            module=self._of.module(node),
            num_launches=0 if operation.is_free else 1,
            is_recomputed=source.recomputed,
            is_weight_gradient=node in self._of.weight_gradients,
        )
        self._append(call)
        for kernel in self._of.passes.get(node, ()):
            self._append(Call(kernel, module=call.module, is_weight_gradient=True))
        self._places[node] = self._last

    def _append(self, call: Call) -> None:
        self._last = len(self._calls)
        self._calls.append(call)
        self._awaited = []

    def _issue(self, number: int) -> None:
        collective = self._of.cutting.collectives[number]
        after = (self._last,) if self._last >= 0 else ()
        operation = self._of.operation_of(collective)
        node = collective.consumer if number in self._of.late else collective.producer
        module = self._of.module(node) if node is not None else ""
        self._issued[number] = len(self._calls)
        self._calls.append(Call(operation, Stream.TENSOR, after, module))
        waits_later = collective.consumer in self._nodes and self._of.plan.overlaps_tensor
        if not waits_later:
            self._awaited.append(self._issued[number])

    def _finish(self) -> None:
        """The end of a sequence stands for the end of all that others wait for."""
        waited = {at for call in self._calls for at in call.after}
        open_ = [at for at in self._issued.values() if at not in waited]
        if open_:
            wait = Operation(OperationKind.ALLOCATION, "wait", (), (), DType.FP32, 0, 0, 0)
            self._append(Call(wait, after=tuple(open_), module=self._calls[-1].module, num_launches=0))


def build_sequencer(
    cutting: Cutting, parts: Parts, plan: Plan, passes: Mapping[int, tuple[Operation, ...]]
) -> Sequencer:
    """A sequencer of a cut graph."""
    nodes = cutting.graph.nodes
    by_producer: dict[int, tuple[int, ...]] = {}
    by_consumer: dict[int, tuple[int, ...]] = {}
    late: set[int] = set()
    for number, collective in enumerate(cutting.collectives):
        if collective.consumer is None:
            continue
        by_consumer[collective.consumer] = (*by_consumer.get(collective.consumer, ()), number)
        if nodes[collective.producer].phase is not nodes[collective.consumer].phase:
            late.add(number)
        else:
            by_producer[collective.producer] = (*by_producer.get(collective.producer, ()), number)
    gradients = find_weight_gradients(cutting.graph)
    return Sequencer(cutting, parts, plan, passes, gradients, by_producer, by_consumer, frozenset(late))


def find_weight_gradients(graph: Graph) -> frozenset[int]:
    """Nodes of the backward that make gradients of weights alone, or what is cast or added to be one."""
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        for tensor in node.inputs:
            readers.setdefault(graph.tensors[tensor].storage, []).append(index)
    found: set[int] = set()
    for index in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[index]
        if node.phase is Phase.BACKWARD and node.outputs and not node.recomputed:
            storages = [graph.tensors[tensor].storage for tensor in node.outputs]
            if all(_is_final(graph, s, readers.get(s, ()), index, found) for s in storages):
                found.add(index)
    return frozenset(found)


def _is_final(graph: Graph, storage: int, readers: Iterable[int], index: int, found: set[int]) -> bool:
    if graph.storages[storage].category == Category.GRADIENT:
        return True
    later = [r for r in readers if r > index]
    return bool(later) and all(r in found and _keeps(graph, r) for r in later)


def _keeps(graph: Graph, node: int) -> bool:
    """Whether a node casts or adds up."""
    operation = graph.operations[graph.nodes[node].operation]
    return operation.kind is OperationKind.COPY or operation.name.rstrip("_") == "add"
