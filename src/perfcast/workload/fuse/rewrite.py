"""The graph written anew with one node per kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation
from perfcast.core.tensor import Category, Storage, Tensor
from perfcast.workload.fuse.accesses import phase_runs, written_tensors
from perfcast.workload.fuse.kernels import Interface, Member, dominant, fused_operation, interface_of
from perfcast.workload.fuse.recompute import Recomputation
from perfcast.workload.fuse.roles import role_of

#: Storages that the program holds, whoever reads them.
_HELD = frozenset(
    {
        Category.PARAMETER,
        Category.BUFFER,
        Category.GRADIENT,
        Category.OPTIMIZER_STATE,
        Category.INPUT,
        Category.KV_CACHE,
    }
)


def rewrite(
    graph: Graph, units: list[tuple[int, ...]], phases: frozenset[Phase], again: Recomputation
) -> Graph:
    """The graph with each of ``units`` as one node; nodes in none of them are gone, and what they made.

    Storages that one kernel makes and nobody else touches are gone. In compiled phases a storage is
    freed after the last node that touches it, unless the program holds it into a later phase; elsewhere
    when the program lets go of it.

    Args:
        units: Members in program order, units in an order that can run.
        phases: Those that are compiled.
        again: What the backward computes again.
    """
    writer = _Writer(graph, units, phases, again)
    nodes = [writer.write(unit) for unit in units]
    return writer.finish(nodes)


def split_single(graph: Graph, kernels: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Groups with less than two kernels in them (an allocation and what fills it) stay as they were."""
    free = [operation.is_free for operation in graph.operations]
    units: list[tuple[int, ...]] = []
    for members in kernels:
        if sum(not free[graph.nodes[node].operation] for node in members) > 1:
            units.append(tuple(members))
        else:
            units.extend((node,) for node in members)
    return units


@dataclass(frozen=True)
class _Uses:
    """For each storage: the last unit that touches it, and whether any node reads it."""

    last: list[int]
    is_read: list[bool]


class _Writer:
    def __init__(
        self, graph: Graph, units: list[tuple[int, ...]], phases: frozenset[Phase], again: Recomputation
    ) -> None:
        self.units = units
        self._again = again
        self._graph = graph
        self._phases = phases
        self._runs = phase_runs(graph)
        self._roles = [role_of(operation) for operation in graph.operations]
        position_of = {node: position for position, members in enumerate(units) for node in members}
        self._position: list[int] = []
        for node in range(len(graph.nodes)):
            previous = self._position[-1] if self._position else 0
            self._position.append(position_of.get(node, previous))
        self._uses = self._find_uses()
        self._operations: dict[Operation, int] = {}
        self._entered: dict[Any, int] = {}
        self._internal = {i for i, s in enumerate(graph.storages) if s.created_by not in position_of}
        self._internal -= {i for i, s in enumerate(graph.storages) if s.created_by < 0}
        self._created: list[list[int]] = [[] for _ in units]
        for index, storage in enumerate(graph.storages):
            if storage.created_by >= 0:
                self._created[self._position[storage.created_by]].append(index)

    def _find_uses(self) -> _Uses:
        graph = self._graph
        storage_of = [tensor.storage for tensor in graph.tensors]
        uses = _Uses([-1] * len(graph.storages), [False] * len(graph.storages))
        for node, position in zip(graph.nodes, self._position, strict=True):
            for tensor in (*node.inputs, *node.outputs):
                storage = storage_of[tensor]
                uses.last[storage] = max(uses.last[storage], position)
            for tensor in node.inputs:
                uses.is_read[storage_of[tensor]] = True
        for storage in self._again.unsaved:
            uses.last[storage] = self._position[graph.storages[storage].created_by]
        for position, nodes in self._again.nodes.items():
            repeated = [graph.nodes[index] for index in nodes]
            made = {storage_of[t] for node in repeated for t in node.outputs}
            for storage in {storage_of[t] for node in repeated for t in node.inputs} - made:
                uses.last[storage] = max(uses.last[storage], position)
        return uses

    # ---- nodes ------------------------------------------------------------------------------

    def write(self, unit: tuple[int, ...]) -> Node:
        """The node of one unit; its operation is entered among the operations."""
        graph = self._graph
        position = self._position[unit[0]]
        repeated = [graph.nodes[i] for i in self._again.nodes.get(position, ())]
        if len(unit) == 1 and not repeated:
            node = graph.nodes[unit[0]]
            return _with(node, self._enter_single(node.operation), node.inputs, node.outputs)
        nodes = [n for n in (graph.nodes[i] for i in unit) if not graph.operations[n.operation].is_free]
        members = [self._member(node) for node in nodes]
        created = set(self._created[position])
        written = {graph.tensors[t].storage for member in members for t in member.written}
        kept = {storage for storage in written if self._is_kept(storage, unit[-1], position)}
        self._internal |= {s for s in created - kept if self._uses.last[s] == position}
        created |= {graph.tensors[t].storage for node in repeated for t in node.outputs}
        everything = [*map(self._repeated_member, repeated), *members]
        interface = interface_of(everything, created, kept, graph.tensors, graph.storages)
        main = nodes[members.index(dominant(members))]
        return Node(
            self._enter_fused([node.operation for node in (*repeated, *nodes)], everything, interface),
            main.phase,
            main.module,
            interface.inputs,
            interface.outputs,
            all(node.recomputed for node in nodes),
            main.stream,
        )

    def _member(self, node: Node) -> Member:
        role = self._roles[node.operation]
        assert role is not None, "a fused node has a role"
        operation = self._graph.operations[node.operation]
        return Member(operation, role, node.inputs, written_tensors(self._graph, node))

    def _repeated_member(self, node: Node) -> Member:
        """A member whose flops were counted in the forward."""
        member = self._member(node)
        flops = member.operation.flops
        return replace(member, operation=replace(member.operation, flops=0, recompute_flops=flops))

    def _enter(self, operation: Operation) -> int:
        return self._operations.setdefault(operation, len(self._operations))

    def _enter_single(self, old: int) -> int:
        if old not in self._entered:
            self._entered[old] = self._enter(self._graph.operations[old])
        return self._entered[old]

    def _enter_fused(self, old: list[int], members: list[Member], interface: Interface) -> int:
        """Kernels that are put together in the same way are built once (types are known by identity)."""
        tensors = self._graph.tensors
        key = (
            tuple(old),
            sum(member.operation.recompute_flops > 0 for member in members),
            tuple(id(tensors[t].type) for t in (*interface.inputs, *interface.outputs)),
            len(interface.inputs),
            interface.read_bytes + interface.written_bytes,
        )
        if key not in self._entered:
            self._entered[key] = self._enter(fused_operation(members, interface, tensors))
        return self._entered[key]

    def _is_kept(self, index: int, last_member: int, position: int) -> bool:
        """Whether somebody outside the kernel wants what it writes to a storage.

        What no node ever reads is a result of the program, or a statistic that is written all the same.
        """
        storage = self._graph.storages[index]
        if index in self._again.unsaved:
            return False
        return (
            self._uses.last[index] > position
            or storage.category in _HELD
            or storage.created_by < 0
            or not self._uses.is_read[index]
            or self._is_held_beyond(storage, last_member)
        )

    def _is_held_beyond(self, storage: Storage, node: int) -> bool:
        """Whether the program holds a storage into a later phase than the node's."""
        return storage.freed_after is None or self._runs[storage.freed_after] > self._runs[node]

    # ---- tensors and storages ---------------------------------------------------------------

    def finish(self, nodes: list[Node]) -> Graph:
        """The graph of these nodes; tensors and storages that no longer exist are left out."""
        graph = self._graph
        kept_storages = [i for i in range(len(graph.storages)) if i not in self._internal]
        storage_index = {old: new for new, old in enumerate(kept_storages)}
        used = sorted({t for node in nodes for t in (*node.inputs, *node.outputs)})
        tensor_index = {old: new for new, old in enumerate(used)}
        return replace(
            graph,
            nodes=tuple(
                _with(
                    node,
                    node.operation,
                    tuple([tensor_index[t] for t in node.inputs]),
                    tuple([tensor_index[t] for t in node.outputs]),
                )
                for node in nodes
            ),
            operations=tuple(self._operations),
            tensors=tuple(
                [Tensor(graph.tensors[t].type, storage_index[graph.tensors[t].storage]) for t in used]
            ),
            storages=tuple([self._moved(index) for index in kept_storages]),
        )

    def _moved(self, index: int) -> Storage:
        """A storage with its moments counted in the new nodes."""
        storage = self._graph.storages[index]
        created = self._position[storage.created_by] if storage.created_by >= 0 else -1
        freed = None if storage.freed_after is None else self._freed_after(index, storage.freed_after)
        category = Category.ACTIVATION if index in self._again.saved else storage.category
        return Storage(storage.num_bytes, category, created, freed, storage.created_at)

    def _freed_after(self, index: int, freed_after: int) -> int:
        last = max(self._uses.last[index], 0)
        is_compiled = self._graph.nodes[freed_after].phase in self._phases
        is_over = self._runs[freed_after] == self._runs[self.units[last][-1]]
        if is_compiled and is_over and self._uses.is_read[index]:
            return last
        return max(last, self._position[freed_after])


def _with(node: Node, operation: int, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Node:
    """``dataclasses.replace``, which takes four times as long."""
    return Node(operation, node.phase, node.module, inputs, outputs, node.recomputed, node.stream)
