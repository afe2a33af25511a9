"""Which nodes run as one kernel: Inductor's greedy fusion, by what kernels have in common.

Three ways to merge, tried in turn until none finds anything more:

1. a value's producer and a consumer that can run in one loop (``roles.join``);
2. an element-wise producer of any extent, all of whose consumers are in one kernel: Inductor inlines it
   there and never writes it;
3. two kernels that read the same tensor and can run in one loop, not far apart.
"""

from __future__ import annotations

from perfcast.core.graph import Graph, Phase
from perfcast.workload.fuse.accesses import Accesses, read_accesses
from perfcast.workload.fuse.groups import Groups
from perfcast.workload.fuse.roles import Iteration, join

#: Inductor's ``max_fusion_size``: nodes of one kernel, and how far apart two readers may be.
_MAX_MEMBERS = 64
_MAX_DISTANCE = 64
_MAX_ROUNDS = 4


def plan_kernels(graph: Graph, phases: frozenset[Phase]) -> list[list[int]]:
    """Nodes of each kernel in program order, kernels in an order that respects all dependencies."""
    planner = _Planner(graph, read_accesses(graph, phases))
    for _ in range(_MAX_ROUNDS):
        merged = planner.merge_producers() + planner.inline_producers() + planner.merge_readers()
        if not merged:
            break
    return [sorted(planner.groups.members[group]) for group in planner.groups.in_order()]


class _Planner:
    def __init__(self, graph: Graph, accesses: Accesses) -> None:
        self.groups = Groups(accesses.predecessors)
        self._accesses = accesses
        self._streams = [node.stream for node in graph.nodes]
        self._iterations = [role.iteration if role else None for role in accesses.roles]
        self._consumers = _invert(accesses.producers)
        self._refused: set[tuple[int, int]] = set()  # a path between two groups never goes away

    def merge_producers(self) -> int:
        """Way 1; the number of merges."""
        merged = 0
        for node, producers in enumerate(self._accesses.producers):
            if self._iterations[self.groups.find(node)] is not None:
                merged += sum(self._try_join(producer, node) for producer in reversed(producers))
        return merged

    def inline_producers(self) -> int:
        """Way 2, last producers first, so that chains collapse; the number of merges."""
        merged = 0
        for node in range(len(self._consumers) - 1, -1, -1):
            group = self.groups.find(node)
            own = self._iterations[group]
            if own is None or own.rows or group != node:
                continue
            outside = {
                other
                for member in self.groups.members[group]
                for other in map(self.groups.find, self._consumers[member])
                if other != group
            }
            if len(outside) == 1:
                consumer = outside.pop()
                theirs = self._iterations[consumer]
                if theirs is not None and theirs.elements:
                    merged += self._try_merge(group, consumer, theirs)
        return merged

    def merge_readers(self) -> int:
        """Way 3; the number of merges."""
        merged = 0
        for nodes in self._accesses.readers:
            for position, node in enumerate(nodes):
                for other in nodes[position + 1 : position + 1 + _MAX_DISTANCE]:
                    if other - node > _MAX_DISTANCE:
                        break
                    merged += self._try_join(node, other)
        return merged

    def _try_join(self, a: int, b: int) -> bool:
        first, second = self.groups.find(a), self.groups.find(b)
        mine, theirs = self._iterations[first], self._iterations[second]
        if first == second or mine is None or theirs is None or (a, b) in self._refused:
            return False
        joint = join(mine, theirs)
        if joint is None:
            return False
        is_merged = self._try_merge(first, second, joint)
        if not is_merged:
            self._refused.add((a, b))
        return is_merged

    def _try_merge(self, a: int, b: int, joint: Iteration) -> bool:
        members, regions = self.groups.members, self._accesses.regions
        if regions[a] != regions[b] or self._streams[a] != self._streams[b]:
            return False
        if len(members[a]) + len(members[b]) > _MAX_MEMBERS:
            return False
        union = self.groups.merge(a, b)
        if union is None:
            return False
        self._iterations[union] = joint
        return True


def _invert(producers: list[list[int]]) -> list[list[int]]:
    consumers: list[list[int]] = [[] for _ in producers]
    for node, earlier in enumerate(producers):
        for producer in earlier:
            consumers[producer].append(node)
    return consumers
