"""An operation on whole tensors → the same on the parts of them that one rank holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.core.tensor import TensorType

_PRODUCTS = (OperationKind.MATMUL, OperationKind.BATCHED_MATMUL)


def local_operation(
    operation: Operation, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
) -> Operation:
    """The operation on these tensors, its work counted again: products and attention by their formulas,
    others in proportion to what they write (or read, where they write a whole)."""
    if tuple(inputs) == operation.inputs and tuple(outputs) == operation.outputs:
        return operation
    attributes = _attributes(operation, inputs, outputs)
    share = _share(operation, inputs, outputs, attributes)
    return replace(
        operation,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        flops=_scaled(operation.flops, share),
        executed_flops=_scaled(operation.executed_flops, share),
        recompute_flops=_scaled(operation.recompute_flops, share),
        memory_traffic_bytes=_traffic_bytes(operation, inputs, outputs),
        attributes=attributes,
    )


def _attributes(
    operation: Operation, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
) -> tuple[tuple[str, AttributeValue], ...]:
    """The same names; sizes that a cut changes are read off the parts."""
    values = dict(operation.attributes)
    if operation.kind in _PRODUCTS and len(inputs) >= 2 and "batch" in values:
        a, b = inputs[-2:]
        values["batch"] = math.prod(a.shape[:-2])
        values["m"], values["k"], values["n"] = a.shape[-2], a.shape[-1], b.shape[-1]
    elif operation.kind is OperationKind.GROUPED_MATMUL:
        a, b = inputs[:2]
        values["m"], values["k"], values["n"] = a.shape[-2], a.shape[-1], b.shape[-1]
    elif operation.kind is OperationKind.ATTENTION:
        first = 1 if values.get("is_backward") else 0
        query, key = inputs[first : first + 2]
        values["batch"], values["heads"], values["kv_heads"] = query.shape[0], query.shape[1], key.shape[1]
    row = values.get("row")
    shape = operation.inputs[0].shape if operation.inputs else ()
    if row is not None and shape and row == shape[-1]:
        values["row"] = inputs[0].shape[-1]
    return tuple(sorted(values.items()))


def _share(
    operation: Operation,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    attributes: tuple[tuple[str, AttributeValue], ...],
) -> tuple[int, int]:
    """What is left of the work, as a fraction."""
    if operation.kind in _PRODUCTS or operation.kind is OperationKind.GROUPED_MATMUL:
        before, after = dict(operation.attributes), dict(attributes)
        sizes = [name for name in ("batch", "m", "n", "k") if name in before]
        return _product(after, sizes), _product(before, sizes)
    if operation.kind is OperationKind.ATTENTION:
        before, after = dict(operation.attributes), dict(attributes)
        return _product(after, ("batch", "heads")), _product(before, ("batch", "heads"))
    written, whole = _count(outputs), _count(operation.outputs)
    read, all_read = _count(inputs), _count(operation.inputs)
    if written == whole and read != all_read:
        return read, all_read
    return (written, whole) if whole else (1, 1)


def _product(sizes: dict[str, AttributeValue], names: Sequence[str]) -> int:
    return math.prod(int(sizes[name]) for name in names)


def _count(tensors: Sequence[TensorType]) -> int:
    return sum(tensor.num_elements for tensor in tensors)


def _bytes(tensors: Sequence[TensorType]) -> int:
    return sum(tensor.num_bytes for tensor in tensors)


def _traffic_bytes(operation: Operation, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> int:
    """Each input read and each output written once; else in proportion to that."""
    before, after = _bytes(operation.inputs) + _bytes(operation.outputs), _bytes(inputs) + _bytes(outputs)
    if operation.memory_traffic_bytes == before:
        return after
    return _scaled(operation.memory_traffic_bytes, (after, before)) if before else 0


def _scaled(value: int, share: tuple[int, int]) -> int:
    part, whole = share
    return value * part // whole if whole else value
