"""What an execution trace holds: every operator of a program with its arguments, and who called it.

All versions of the format (1.0.1 to 1.1.1) become the same data. Nodes are named by their ids, which rise
with the operators' starts. Tensors and storages have ids too, but these are addresses given again to
others: a ``TensorUse`` therefore also carries the number of its storage's life (``storages``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from perfcast.errors import TraceError
from perfcast.traces.events import Collective, ProcessGroup

#: Scopes of a node, as PyTorch numbers them.
SCOPE_FUNCTION, SCOPE_BACKWARD, SCOPE_USER = 0, 1, 7


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that the file only names: ``'Object'``, ``'Stream'``, ``'Generator'``, ``'Storage'``."""

    kind: str


@dataclass(frozen=True, slots=True)
class TensorUse:
    """One tensor as one operator saw it.

    ``storage`` indexes ``ExecutionTrace.storages`` (``NONE``: an undefined tensor, or one without
    memory). ``strides`` is ``None`` where the file has none (before 1.1.1). ``dtype`` in PyTorch's words
    ('float32'), '' for an undefined tensor. Offset, sizes and strides count elements.
    """

    tensor_id: int
    storage_id: int
    storage: int
    offset_elements: int
    num_elements: int
    element_bytes: int
    device: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None

    @property
    def is_sparse(self) -> bool:
        """Whether its elements lie in other tensors: indices and values, which operators ask it for."""
        return self.dtype != "" and self.storage_id == 0 and 0 not in self.shape


Value: TypeAlias = "TensorUse | int | float | bool | str | Opaque | tuple[Value, ...] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator, label, or root.

    ``input_types`` and ``output_types`` are the file's words ('Tensor(float)', 'GenericList[Int,Int]').
    ``schema`` is '' for labels. ``sequence_number`` is autograd's. ``kernel_backend`` is 'triton' for a
    generated kernel, whose source is ``kernel_file``. ``tensor_ranges`` gives smallest and largest value
    of a whole-number input by its place among the input tensors, where recorded. ``collective`` is the
    collective that the node asks for; its ``row`` is the node's id.
    """

    id: int
    parent: int
    name: str
    inputs: tuple[Value, ...]
    input_types: tuple[str, ...]
    outputs: tuple[Value, ...]
    output_types: tuple[str, ...]
    schema: str
    record_function_id: int
    sequence_number: int
    scope: int
    thread: int
    forward_parent: int = 0
    forward_thread: int = 0
    kernel_backend: str = ""
    kernel_file: str = ""
    tensor_ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    collective: Collective | None = None

    @property
    def is_operator(self) -> bool:
        """Whether it computes or communicates itself: it has a schema, or is a generated kernel."""
        return bool(self.schema) or bool(self.kernel_backend)


@dataclass(frozen=True, slots=True)
class Storage:
    """One life of one piece of memory, from its first to its last use.

    ``maker`` is the node that allocated it, ``NONE`` where it was there before the recording.
    ``first_node`` and ``last_node`` are the ids between which it is used.
    """

    storage_id: int
    device: str
    num_bytes: int
    maker: int
    first_node: int
    last_node: int


@dataclass(frozen=True)
class ExecutionTrace:
    """Nodes in order of their ids. ``version`` is the schema's three numbers."""

    source: str
    version: tuple[int, int, int]
    nodes: tuple[Node, ...]
    storages: tuple[Storage, ...]
    process_groups: tuple[ProcessGroup, ...] = ()
    start_milliseconds: int = 0
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[int, Node]:
        """Nodes by their ids."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def children(self) -> Mapping[int, tuple[Node, ...]]:
        """The nodes called by each node, in order; a root is not its own child."""
        found: dict[int, list[Node]] = {}
        for node in self.nodes:
            if node.parent != node.id:
                found.setdefault(node.parent, []).append(node)
        return {parent: tuple(nodes) for parent, nodes in found.items()}

    @cached_property
    def last_below(self) -> Mapping[int, int]:
        """The largest id among what each node called, directly or not, itself included."""
        last = {node.id: node.id for node in self.nodes}
        for node in reversed(self.nodes):
            if node.parent != node.id:
                last[node.parent] = max(last[node.parent], last[node.id])
        return last

    def callers(self, node: Node) -> Iterator[Node]:
        """The nodes that called a node, the nearest first."""
        while node.parent != node.id:
            node = self.by_id[node.parent]
            yield node

    @cached_property
    def roots(self) -> tuple[Node, ...]:
        """Nodes that nobody called."""
        return tuple(node for node in self.nodes if node.parent == node.id)

    @cached_property
    def collectives(self) -> tuple[Collective, ...]:
        """The collectives that the program asked for, in order; waiting for one is none.

        Where an operator and the record below it both tell of one collective, the record's word stands.
        """
        recorded_below = {node.parent for node in self.nodes if node.collective is not None}
        return tuple(
            node.collective
            for node in self.nodes
            if node.collective is not None and node.id not in recorded_below
        )

    def node(self, node_id: int) -> Node:
        """The node of this id.

        Raises:
            TraceError: There is none.
        """
        if node_id not in self.by_id:
            raise TraceError(f"'{self.source}' has no node {node_id}")
        return self.by_id[node_id]


def tensors_in(values: tuple[Value, ...]) -> Iterator[TensorUse]:
    """The tensors among values, also those in lists, in order."""
    for value in values:
        if isinstance(value, TensorUse):
            yield value
        elif isinstance(value, tuple):
            yield from tensors_in(value)
