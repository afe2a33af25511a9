"""Pages that a step touches for the first time, on a processor whose C library returns freed memory.

glibc's malloc maps blocks beyond a threshold anew each time, and gives the end of its heap back when more
than twice that threshold lies free there. The threshold is the largest mapped block that was ever freed,
at most 32 MiB. Whatever was given back costs a page fault per page when it is used again, so a training
step whose gradients and activations come and go pays for many of them in every step. The heap is followed
here block by block (best fit, as malloc's sorted bins do; neighbours that are free merge) over three steps,
of which the last counts: the first finds the heap empty, and its optimizer places the states that stay.
A program without an optimizer is charged for mapped blocks alone: what its heap gives back fits in the
holes that building the model left.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field, replace

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, TensorType
from perfcast.units import KIB, MIB

MOST_HEAP_BLOCK_BYTES = 32 * MIB
_LEAST_THRESHOLD_BYTES = 128 * KIB


def first_touch_operation(num_bytes: int) -> Operation:
    """The operation that stands for faulting in so many bytes."""
    page = TensorType((num_bytes,), DType.UINT8, (1,))
    return Operation(OperationKind.FILL, "first_touch", (), (page,), DType.FP32, 0, 0, num_bytes)


def with_first_touch(graph: Graph) -> Graph:
    """The graph with one more node per phase that touches new pages, at the end."""
    touched = {phase: n for phase, n in first_touch_bytes(graph).items() if n > 0}
    operations = tuple(first_touch_operation(n) for n in touched.values())
    nodes = tuple(Node(len(graph.operations) + i, phase, "", (), ()) for i, phase in enumerate(touched))
    return replace(graph, nodes=graph.nodes + nodes, operations=graph.operations + operations)


def first_touch_bytes(graph: Graph) -> dict[Phase, int]:
    """Bytes touched anew in each phase of a step in steady state."""
    created: defaultdict[int, list[int]] = defaultdict(list)
    freed: defaultdict[int, list[int]] = defaultdict(list)
    last = len(graph.nodes) - 1
    for index, storage in enumerate(graph.storages):
        if storage.created_by >= 0 and storage.num_bytes > 0:
            created[storage.created_by].append(index)
            freed[last if storage.freed_after is None else storage.freed_after].append(index)
    sizes = [storage.num_bytes for storage in graph.storages]
    mapped = [sizes[i] for made in created.values() for i in made if sizes[i] <= MOST_HEAP_BLOCK_BYTES]
    threshold = max([_LEAST_THRESHOLD_BYTES, *mapped])
    trains = any(node.phase is Phase.OPTIMIZER for node in graph.nodes)
    heap = _Heap(trim_bytes=2 * threshold if trains else sum(sizes))
    result = dict.fromkeys(Phase, 0)
    states = [i for i, s in enumerate(graph.storages) if s.category == Category.OPTIMIZER_STATE]
    for step in range(3):
        result = dict.fromkeys(Phase, 0)
        for i, node in enumerate(graph.nodes):
            if step == 0 and node.phase is Phase.OPTIMIZER and states:
                for state in states:
                    heap.allocate(state, sizes[state])
                states = []
            for block in created[i]:
                is_mapped = sizes[block] > threshold
                result[node.phase] += sizes[block] if is_mapped else heap.allocate(block, sizes[block])
            for block in freed[i]:
                heap.free(block)
    return result


@dataclass
class _Heap:
    """Blocks at offsets; ``extent`` is the end of what is held of the system."""

    trim_bytes: int
    extent: int = 0
    _blocks: dict[int, tuple[int, int]] = field(default_factory=dict)
    _holes: list[tuple[int, int]] = field(default_factory=list)
    _top: int = 0

    def allocate(self, block: int, size: int) -> int:
        """Place a block; returns the bytes by which the heap had to grow."""
        fitting = [hole for hole in self._holes if hole[1] - hole[0] >= size]
        if fitting:
            start, end = min(fitting, key=lambda hole: hole[1] - hole[0])
            self._holes.remove((start, end))
            if end - start > size:
                insort(self._holes, (start + size, end))
            self._blocks[block] = (start, start + size)
            return 0
        self._blocks[block] = (self._top, self._top + size)
        self._top += size
        grown = max(0, self._top - self.extent)
        self.extent = max(self.extent, self._top)
        return grown

    def free(self, block: int) -> None:
        """Merge with neighbouring holes; give the end back when it is long enough."""
        if block not in self._blocks:
            return
        start, end = self._blocks.pop(block)
        position = bisect_left(self._holes, (start, end))
        if position < len(self._holes) and self._holes[position][0] == end:
            end = self._holes.pop(position)[1]
        if position > 0 and self._holes[position - 1][1] == start:
            start = self._holes.pop(position - 1)[0]
        if end < self._top:
            insort(self._holes, (start, end))
            return
        self._top = start
        if self.extent - self._top > self.trim_bytes:
            self.extent = self._top
