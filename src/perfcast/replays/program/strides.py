"""Strides of tensors in traces that do not record them (before 1.1.1).

Every view is made by an operator that says how: ``aten::as_strided`` with sizes and strides, ``aten::view``
and its kin with sizes, ``aten::detach`` with nothing. All else makes a new tensor, whose elements are taken
to stand side by side, or hands back one that it was given.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import replace

from perfcast.traces.execution_trace.nodes import ExecutionTrace, Node, TensorUse, Value, tensors_in

_SIZED_VIEWS = frozenset({"aten::view", "aten::_unsafe_view", "aten::reshape", "aten::flatten"})
_STRIDED = frozenset({"aten::as_strided", "aten::_reshape_alias"})


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor whose elements stand side by side, the last dimension's fastest."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def with_strides(trace: ExecutionTrace) -> ExecutionTrace:
    """The trace with strides at every tensor; one that has them all is returned as it is."""
    uses = (use for node in trace.nodes for use in tensors_in((*node.inputs, *node.outputs)))
    if all(use.strides is not None for use in uses):
        return trace
    found = _Strides(trace)
    return replace(trace, nodes=tuple(found.completed(node) for node in trace.nodes))


class _Strides:
    """What leaves of the call tree say about each tensor id, in the order of nodes."""

    def __init__(self, trace: ExecutionTrace) -> None:
        self._ids: dict[int, list[int]] = {}
        self._known: dict[int, list[tuple[int, tuple[int, ...], tuple[int, ...]]]] = {}
        self._ends = trace.last_below
        for node in trace.nodes:
            if node.is_operator and not trace.children.get(node.id):
                self._learn(node)

    def _learn(self, leaf: Node) -> None:
        given = {use.storage: use for use in reversed(list(tensors_in(leaf.inputs)))}
        for use in tensors_in(leaf.outputs):
            source = given.get(use.storage)
            strides = contiguous_strides(use.shape)
            if source is not None:
                strides = self._viewed(leaf, use, source)
            self._ids.setdefault(use.tensor_id, []).append(leaf.id)
            self._known.setdefault(use.tensor_id, []).append((use.storage, use.shape, strides))

    def _viewed(self, leaf: Node, use: TensorUse, source: TensorUse) -> tuple[int, ...]:
        """Strides of what a leaf hands out of memory that it was given."""
        strides = self._at(source, leaf.id - 1)
        if leaf.name in _STRIDED and len(leaf.inputs) > 2 and _is_whole(leaf.inputs[2], len(use.shape)):
            return tuple(int(step) for step in leaf.inputs[2])  # type: ignore[union-attr, arg-type]
        if use.shape == source.shape:
            return strides
        viewed = view_strides(source.shape, strides, use.shape) if leaf.name in _SIZED_VIEWS else None
        return viewed if viewed is not None else contiguous_strides(use.shape)

    def _at(self, use: TensorUse, last_id: int) -> tuple[int, ...]:
        if use.strides is not None:
            return use.strides
        place = bisect.bisect_right(self._ids.get(use.tensor_id, ()), last_id) - 1
        if place >= 0:
            storage, shape, strides = self._known[use.tensor_id][place]
            if storage == use.storage and shape == use.shape:
                return strides
        return contiguous_strides(use.shape)

    def completed(self, node: Node) -> Node:
        return replace(
            node,
            inputs=tuple(self._value(value, node.id - 1) for value in node.inputs),
            outputs=tuple(self._value(value, self._ends[node.id]) for value in node.outputs),
        )

    def _value(self, value: Value, last_id: int) -> Value:
        if isinstance(value, TensorUse):
            return value if value.strides is not None else replace(value, strides=self._at(value, last_id))
        return tuple(self._value(item, last_id) for item in value) if isinstance(value, tuple) else value


def _is_whole(value: Value, length: int) -> bool:
    return isinstance(value, tuple) and len(value) == length and all(type(item) is int for item in value)


def view_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of a tensor seen with other sizes, ``None`` where that would need a copy.

    Runs of dimensions whose elements follow one another at one distance are blocks; each wanted dimension
    has to be cut from one block, from the last to the first.
    """
    if 0 in shape:
        return contiguous_strides(wanted)
    blocks = _blocks(shape, strides)
    found = []
    left, step = 1, 1
    for size in reversed(wanted):
        while left == 1 and size != 1 and blocks:
            left, step = blocks.pop()
        if size != 1 and (left == 1 or left % size):
            return None
        found.append(step)
        step, left = step * size, left // size
    return tuple(reversed(found)) if left == 1 and not any(size > 1 for size, _ in blocks) else None


def _blocks(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """(elements, distance) of each run of dimensions that can be seen as one, first to last."""
    blocks: list[tuple[int, int]] = []
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if blocks and stride == blocks[-1][0] * blocks[-1][1]:
            blocks[-1] = (blocks[-1][0] * size, blocks[-1][1])
        else:
            blocks.append((size, stride))
    return blocks[::-1]
