"""Lives of storages: which uses of an id mean the same memory, and how large it was.

A recorded id is an address, given to another storage once the first is freed. What the trace shows of
that: an operator hands out memory that it was not given. So a life begins

* where an operator that called no other returns a storage that is none of its arguments' (every
  allocation ends in such an operator: ``aten::empty``, or a kernel that makes its own output),
* where an operator that called others returns one that neither its arguments nor any operator below it
  touched,
* where an operator is handed one by its caller that the caller was not given and that no operator below it
  touched before: the caller made it, and
* where a use cannot mean the life before it: another device, another element size with more bytes than
  there were.

Collectives and labels make nothing: they return what others made. Sizes are the furthest byte that any use
reaches: (offset + 1 + Σ (sizeᵢ − 1) · strideᵢ) elements; before 1.1.1, where strides are not recorded, a
whole new tensor's elements bound its views.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import Node, Storage, TensorUse, Value, tensors_in

#: Views that repeat elements: without strides their count says nothing of the memory.
_REPEATING = ("aten::expand", "aten::as_strided", "aten::broadcast_to", "aten::expand_as", "aten::unfold")


class _Life:
    """A storage while its uses are gathered."""

    def __init__(self, use: TensorUse, maker: int, node: int) -> None:
        self.storage_id, self.device, self.maker = use.storage_id, use.device, maker
        self.element_bytes = use.element_bytes
        self.num_bytes = 0
        self.is_bounded = False  # a whole new tensor showed its size
        self.first_node = self.last_node = node

    def stretch(self, use: TensorUse, node: int, *, is_repeating: bool) -> None:
        self.first_node, self.last_node = min(self.first_node, node), max(self.last_node, node)
        if use.strides is None and (self.is_bounded or is_repeating):
            return
        self.num_bytes = max(self.num_bytes, extent_bytes(use))


def extent_bytes(use: TensorUse) -> int:
    """Bytes from the storage's start to the end of the last element that the tensor reaches.

    Without strides, the elements are taken to stand side by side.
    """
    if use.num_elements == 0:
        return 0
    if use.strides is None:
        return (use.offset_elements + use.num_elements) * use.element_bytes
    return (use.offset_elements + reach_elements(use.shape, use.strides)) * use.element_bytes


def reach_elements(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory from a tensor's first element to its last one, both included; 0 of an empty one."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def with_storages(nodes: Sequence[Node]) -> tuple[list[Node], tuple[Storage, ...]]:
    """The nodes, each tensor with the number of its storage's life, and all lives.

    Args:
        nodes: In order of their ids, which is the order of their starts; parents without circles.
    """
    tracker = _Tracker(nodes)
    for node_id, is_end in _order(nodes):
        if is_end:
            tracker.leave(node_id)
        else:
            tracker.enter(node_id)
    found = [tracker.finished(node) for node in nodes]
    storages = tuple(
        Storage(life.storage_id, life.device, life.num_bytes, life.maker, life.first_node, life.last_node)
        for life in tracker.lives
    )
    return found, storages


def _order(nodes: Sequence[Node]) -> Iterable[tuple[int, bool]]:
    """Starts and ends of nodes as they happened: a node ends before the next that is not below it starts."""
    above = {node.id: node.parent for node in nodes}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    for node in nodes:
        caller = _nearest_open(node.parent, above, is_open)
        while open_nodes and open_nodes[-1] != caller:
            is_open.discard(open_nodes[-1])
            yield open_nodes.pop(), True
        yield node.id, False
        open_nodes.append(node.id)
        is_open.add(node.id)
    while open_nodes:
        yield open_nodes.pop(), True


def _nearest_open(node_id: int, above: dict[int, int], is_open: set[int]) -> int:
    """The nearest caller that has not ended; ``above`` is shortened on the way: long ways pay once."""
    passed = []
    while node_id not in is_open and above[node_id] != node_id:
        passed.append(node_id)
        node_id = above[node_id]
    for one in passed:
        above[one] = node_id
    return node_id


class _Tracker:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.lives: list[_Life] = []
        self._nodes = {node.id: node for node in nodes}
        self._current: dict[int, int] = {}  # storage id → life
        self._inputs: dict[int, list[int]] = {}
        self._outputs: dict[int, list[int]] = {}
        self._touched: dict[int, set[int]] = {}  # per node: storage ids that nodes below it used
        self._has_children: set[int] = {node.parent for node in nodes if node.parent != node.id}

    def enter(self, node_id: int) -> None:
        node = self._nodes[node_id]
        self._begin_callers(node)
        self._inputs[node_id] = [self._use(use, node, NONE) for use in tensors_in(node.inputs)]

    def _begin_callers(self, node: Node) -> None:
        """Lives of what a node is handed by an operator that made it."""
        caller = self._nodes.get(node.parent)
        if caller is None or caller.id == node.id or not _makes(caller):
            return
        touched = self._touched.setdefault(caller.id, set())
        given = {use.storage_id for use in tensors_in(caller.inputs)}
        for use in tensors_in(node.inputs):
            if use.storage_id and use.storage_id not in given and use.storage_id not in touched:
                touched.add(use.storage_id)
                self._begin(use, caller.id, node.id)

    def leave(self, node_id: int) -> None:
        node = self._nodes[node_id]
        given = {use.storage_id for use in tensors_in(node.inputs)}
        touched = self._touched.pop(node_id, set())
        makes = _makes(node)
        made: dict[int, int] = {}
        lives = []
        for use in tensors_in(node.outputs):
            is_new = makes and use.storage_id not in given and use.storage_id not in touched
            if is_new and use.storage_id and use.storage_id not in made:
                made[use.storage_id] = self._begin(use, node.id, node.id)
            lives.append(self._use(use, node, node.id))
        self._outputs[node_id] = lives
        used = touched | given | {use.storage_id for use in tensors_in(node.outputs)}
        if node.parent != node.id:
            self._touched.setdefault(node.parent, set()).update(used)

    def _begin(self, use: TensorUse, maker: int, node: int) -> int:
        life = _Life(use, maker, node)
        self.lives.append(life)
        self._current[use.storage_id] = len(self.lives) - 1
        if maker != NONE and use.offset_elements == 0:
            life.num_bytes, life.is_bounded = extent_bytes(use), True
        return len(self.lives) - 1

    def _use(self, use: TensorUse, node: Node, maker: int) -> int:
        if not use.storage_id:
            return NONE
        number = self._current.get(use.storage_id)
        if number is None or not self._fits(use, self.lives[number]):
            number = self._begin(use, maker, node.id)
        is_repeating = node.name.startswith(_REPEATING) and maker != NONE
        self.lives[number].stretch(use, node.id, is_repeating=is_repeating)
        return number

    def _fits(self, use: TensorUse, life: _Life) -> bool:
        is_grown = use.strides is not None and extent_bytes(use) > life.num_bytes
        is_retyped = bool(use.element_bytes) and use.element_bytes != life.element_bytes
        return use.device == life.device and not (is_retyped and is_grown)

    def finished(self, node: Node) -> Node:
        """The node with numbered storages."""
        inputs, outputs = iter(self._inputs[node.id]), iter(self._outputs[node.id])
        return replace(
            node,
            inputs=tuple(_numbered(value, inputs) for value in node.inputs),
            outputs=tuple(_numbered(value, outputs) for value in node.outputs),
        )


def _makes(node: Node) -> bool:
    """Whether a node can allocate: labels and collectives do not."""
    return node.is_operator and not node.name.startswith("c10d")


def _numbered(value: Value, lives: Iterable[int]) -> Value:
    lives = iter(lives)
    if isinstance(value, TensorUse):
        return replace(value, storage=next(lives))
    return tuple(_numbered(item, lives) for item in value) if isinstance(value, tuple) else value
