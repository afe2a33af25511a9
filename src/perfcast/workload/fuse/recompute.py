"""Which values a compiled training step makes again in the backward instead of saving them.

Inductor cuts forward from backward where fewest bytes are saved (``min_cut_rematerialization_partition``
of torch._functorch.partitioners) and lets the backward repeat element-wise work. Here the plain case: what
a forward kernel writes for one backward kernel alone is computed there from what that kernel's sources
are, if both the bytes moved and the bytes saved become fewer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import OperationKind
from perfcast.core.tensor import Category
from perfcast.workload.fuse.accesses import written_tensors
from perfcast.workload.fuse.roles import role_of

_CHEAP = frozenset({OperationKind.ELEMENTWISE, OperationKind.COPY, OperationKind.FILL})
_PASSING = frozenset({Category.ACTIVATION, Category.TEMPORARY})


@dataclass(frozen=True)
class Recomputation:
    """What is computed twice.

    Attributes:
        nodes: Backward unit → the forward nodes that run again in it, in program order.
        unsaved: Storages that are not kept for the backward any more.
        saved: Storages that are kept for it instead.
    """

    nodes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unsaved: set[int] = field(default_factory=set)
    saved: set[int] = field(default_factory=set)


@dataclass
class _Cone:
    """Nodes that compute a value, and the storages that they start from."""

    nodes: set[int] = field(default_factory=set)
    sources: set[int] = field(default_factory=set)


def plan_recomputation(graph: Graph, units: Sequence[tuple[int, ...]]) -> Recomputation:
    """Look at every forward unit and the backward units that alone read what it saves."""
    view = _View(graph, units)
    result = Recomputation()
    chosen: dict[int, set[int]] = defaultdict(set)
    for position, unit in enumerate(units):
        if len(unit) < 2 or graph.nodes[unit[0]].phase is not Phase.FORWARD:
            continue
        for reader, storages in view.saved_for_one(unit, position).items():
            cones = {s: cone for s in storages if (cone := view.cone_of(s, position, reader, storages))}
            if not view.is_worth_it(cones, reader):
                continue
            result.unsaved.update(cones)
            for cone in cones.values():
                chosen[reader] |= cone.nodes
                result.saved.update(s for s in cone.sources if not view.is_alive(s, reader))
    result.nodes.update({reader: tuple(sorted(nodes)) for reader, nodes in chosen.items()})
    return result


class _View:
    """Who makes and who reads each storage, by unit."""

    def __init__(self, graph: Graph, units: Sequence[tuple[int, ...]]) -> None:
        self._graph = graph
        self._units = units
        self._storage_of = [tensor.storage for tensor in graph.tensors]
        self._writers: list[list[int]] = [[] for _ in graph.storages]
        self._readers: list[set[int]] = [set() for _ in graph.storages]
        self._unit_of: dict[int, int] = {}
        roles = [role_of(operation) is not None for operation in graph.operations]
        self._has_role = [all(roles[graph.nodes[n].operation] for n in unit) for unit in units]
        for position, unit in enumerate(units):
            for node in unit:
                self._unit_of[node] = position
                for tensor in graph.nodes[node].inputs:
                    self._readers[self._storage_of[tensor]].add(position)
                for tensor in written_tensors(graph, graph.nodes[node]):
                    self._writers[self._storage_of[tensor]].append(node)

    def saved_for_one(self, unit: tuple[int, ...], position: int) -> dict[int, set[int]]:
        """Backward unit → what this unit writes for it and nobody else."""
        found: dict[int, set[int]] = defaultdict(set)
        for node in unit:
            for tensor in self._graph.nodes[node].outputs:
                storage = self._storage_of[tensor]
                readers = self._readers[storage] - {position}
                if len(readers) == 1 and self._is_repeatable(storage, position):
                    (reader,) = readers
                    is_backward = self._graph.nodes[self._units[reader][0]].phase is Phase.BACKWARD
                    if reader > position and is_backward and self._has_role[reader]:
                        found[reader].add(storage)
        return found

    def _is_repeatable(self, storage: int, position: int) -> bool:
        """Whether one cheap node of the unit makes it and nothing changes it."""
        writers, stored = self._writers[storage], self._graph.storages[storage]
        if len(writers) != 1 or stored.category not in _PASSING or stored.freed_after is None:
            return False
        node = self._graph.nodes[writers[0]]
        is_cheap = self._graph.operations[node.operation].kind in _CHEAP
        return is_cheap and self._unit_of[writers[0]] == position and len(node.outputs) == 1

    def cone_of(self, storage: int, position: int, reader: int, unsaved: set[int]) -> _Cone | None:
        """How to compute a value from what is outside the unit or saved in any case; None if one cannot."""
        cone = _Cone()
        queue = [storage]
        for wanted in queue:
            is_outside = all(self._unit_of[node] != position for node in self._writers[wanted])
            if wanted not in unsaved and (is_outside or self.is_alive(wanted, reader)):
                if self._changes_before(wanted, reader):
                    return None
                cone.sources.add(wanted)
            elif self._is_repeatable(wanted, position):
                node = self._writers[wanted][0]
                cone.nodes.add(node)
                inputs = {self._storage_of[t] for t in self._graph.nodes[node].inputs}
                queue.extend(inputs.difference(queue))
            else:
                return None
        return cone

    def _changes_before(self, storage: int, reader: int) -> bool:
        """Whether a source may hold another value in the backward than it did in the forward."""
        is_made_here = self._graph.storages[storage].category in _PASSING
        return sum(self._unit_of[node] < reader for node in self._writers[storage]) > is_made_here

    def is_alive(self, storage: int, reader: int) -> bool:
        """Whether a storage is there when the backward unit runs, recomputation or not."""
        is_held = self._graph.storages[storage].category not in _PASSING
        return is_held or max(self._readers[storage], default=-1) >= reader

    def is_worth_it(self, cones: dict[int, _Cone], reader: int) -> bool:
        """Fewer bytes moved (one write and one read saved, sources read) and fewer bytes saved."""
        sources = {source for cone in cones.values() for source in cone.sources}
        spared = self._bytes(cones)
        more_reads = self._bytes(s for s in sources if reader not in self._readers[s])
        more_saved = self._bytes(s for s in sources if not self.is_alive(s, reader))
        return more_reads < 2 * spared and more_saved < max(spared, 1)

    def _bytes(self, storages: Iterable[int]) -> int:
        return sum(self._graph.storages[storage].num_bytes for storage in storages)
