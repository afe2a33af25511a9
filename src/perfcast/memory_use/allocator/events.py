"""What a program asks of the allocator, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, Storage

#: Kinds that cuBLAS runs. Convolutions are cuDNN's, attention and grouped products have kernels of their own.
_BLAS_KINDS = frozenset({OperationKind.MATMUL, OperationKind.BATCHED_MATMUL})


@dataclass(frozen=True, slots=True)
class Allocate:
    """A block, named by a number not in use, of at least ``num_bytes`` for work on a stream."""

    block: int
    num_bytes: int
    stream: int = 0


@dataclass(frozen=True, slots=True)
class Free:
    """The last reference to a block is dropped."""

    block: int


@dataclass(frozen=True, slots=True)
class RecordStream:
    """Work on another stream uses the block (``Tensor.record_stream``)."""

    block: int
    stream: int


@dataclass(frozen=True, slots=True)
class Synchronize:
    """The work issued so far on a stream has ended; None: on every stream."""

    stream: int | None = None


@dataclass(frozen=True, slots=True)
class EmptyCache:
    """Cached memory goes back to the driver (``torch.cuda.empty_cache``)."""


AllocatorEvent = Allocate | Free | RecordStream | Synchronize | EmptyCache


def allocation_events(
    graph: Graph, *, steps: int = 2, workspace_bytes: int = 0
) -> tuple[AllocatorEvent, ...]:
    """The requests of a program that runs a graph ``steps`` times on a GPU.

    Storages that are there before the step come first, each by itself, but for the optimizer's state, which
    PyTorch's optimizers make in their first step. Then each node makes its storages and lets go of those that
    it was the last to need. Of the storages that outlive a step, gradients are dropped before the next one
    (``zero_grad(set_to_none=True)``), others when their successor is there. A storage that was there before
    the step and is dropped in it is made anew before each step.

    Args:
        workspace_bytes: Taken by the first product on each stream of each thread that issues products, and
            kept: backwards run in a thread of autograd's own, with a cuBLAS handle of its own
            (aten/src/ATen/cuda/CublasHandlePool.cpp).
    """
    return tuple(event for step in events_by_node(graph, steps, workspace_bytes) for _, event in step)


def events_by_node(
    graph: Graph, steps: int, workspace_bytes: int
) -> Iterator[Iterator[tuple[int, AllocatorEvent]]]:
    """The same, step by step, with the node that each is of; -1 before and after all nodes."""
    program = _Program(graph, workspace_bytes)
    for step in range(steps):
        yield program.events_of_step(is_first=step == 0)


class _Program:
    """Numbers blocks and knows which are held; a storage has a new number in every step that makes it."""

    def __init__(self, graph: Graph, workspace_bytes: int) -> None:
        self._graph, self._workspace_bytes = graph, workspace_bytes
        self._made: defaultdict[int, list[int]] = defaultdict(list)
        self._dropped: defaultdict[int, list[int]] = defaultdict(list)
        self._block_of: dict[int, int] = {}
        self._num_blocks = 0
        self._workspaces: set[tuple[bool, int]] = set()
        trains = any(node.phase is Phase.OPTIMIZER for node in graph.nodes)
        self._optimizer_states = [
            i for i, s in enumerate(graph.storages) if trains and s.num_bytes and _is_early_state(s)
        ]
        for index, storage in enumerate(graph.storages):
            if storage.num_bytes == 0:
                continue
            self._made[storage.created_by].append(index)
            if storage.freed_after is not None:
                self._dropped[storage.freed_after].append(index)

    def events_of_step(self, is_first: bool) -> Iterator[tuple[int, AllocatorEvent]]:
        """One step, from what it finds to the gradients that its end drops, with the node of each."""
        yield from ((-1, event) for event in self._before_step(is_first))
        yield from self._of_nodes(is_first)
        for storage, kept in enumerate(self._graph.storages):
            if storage in self._block_of and kept.category == Category.GRADIENT and kept.created_by >= 0:
                yield -1, Free(self._block_of.pop(storage))

    def _of_nodes(self, is_first: bool) -> Iterator[tuple[int, AllocatorEvent]]:
        states_to_make = self._optimizer_states if is_first else []
        for index, node in enumerate(self._graph.nodes):
            if states_to_make and node.phase is Phase.OPTIMIZER:
                yield from ((index, event) for state in states_to_make for event in self._make(state, 0))
                states_to_make = []
            for storage in self._made[index]:
                yield from ((index, event) for event in self._make(storage, node.stream))
            yield from ((index, event) for event in self._workspace(node))
            for storage in self._dropped[index]:
                yield index, Free(self._block_of.pop(storage))

    def _before_step(self, is_first: bool) -> Iterator[AllocatorEvent]:
        late = set(self._optimizer_states) if is_first else set()
        for storage in self._made[-1]:
            if storage not in self._block_of and storage not in late:
                yield from self._make(storage, 0)

    def _make(self, storage: int, stream: int) -> Iterator[AllocatorEvent]:
        predecessor = self._block_of.get(storage)
        block = self._block_of[storage] = self._new_block()
        yield Allocate(block, self._graph.storages[storage].num_bytes, stream)
        if predecessor is not None:
            yield Free(predecessor)

    def _workspace(self, node: Node) -> Iterator[AllocatorEvent]:
        if self._workspace_bytes == 0 or not uses_workspace(self._graph.operations[node.operation]):
            return
        handle = (node.phase is Phase.BACKWARD, node.stream)
        if handle not in self._workspaces:
            self._workspaces.add(handle)
            yield Allocate(self._new_block(), self._workspace_bytes, node.stream)

    def _new_block(self) -> int:
        self._num_blocks += 1
        return self._num_blocks - 1


def uses_workspace(operation: Operation) -> bool:
    """Whether cuBLAS runs it, in a workspace of its own."""
    return operation.kind in _BLAS_KINDS


def _is_early_state(storage: Storage) -> bool:
    is_state = storage.category == Category.OPTIMIZER_STATE
    return is_state and storage.created_by < 0 and storage.freed_after is None
