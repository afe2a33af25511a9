"""What an operator asks of a processor: a call, arithmetic by its kind, weights, activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType

Kind = OperationKind
#: Operators that are priced alike: convolutions of all channels, of groups and of single channels, products,
#: attention, and all others, which move data.
ProcessorClass = Literal["convolution", "grouped", "depthwise", "product", "attention", "other"]
CLASSES: tuple[ProcessorClass, ...] = get_args(ProcessorClass)

_CLASS_OF_KIND: dict[OperationKind, ProcessorClass] = {
    Kind.MATMUL: "product",
    Kind.BATCHED_MATMUL: "product",
    Kind.GROUPED_MATMUL: "product",
    Kind.RECURRENT: "product",
    Kind.ATTENTION: "attention",
    Kind.LINEAR_ATTENTION: "attention",
}


@dataclass(frozen=True)
class ProcessorWork:
    """Columns of shape [n, classes]; a row has figures in the column of its class alone.

    Attributes:
        calls: 1.
        flops: Executed floating-point operations.
        weight_bytes: Read once from memory.
        activation_bytes: Read and written, mostly in caches.
    """

    calls: Floats
    flops: Floats
    weight_bytes: Floats
    activation_bytes: Floats


def work_of(operations: Sequence[Operation]) -> ProcessorWork:
    """Work of each operation; all zero for one that runs nothing."""
    columns = [np.zeros((len(operations), len(CLASSES))) for _ in range(4)]
    for row, operation in enumerate(operations):
        if operation.is_free:
            continue
        place = row, CLASSES.index(class_of(operation))
        weight = _weight_bytes(operation)
        figures = (1.0, operation.executed_flops, weight, _moved_bytes(operation) - weight)
        for column, figure in zip(columns, figures, strict=True):
            column[place] = max(float(figure), 0.0)
    return ProcessorWork(*columns)


def class_of(operation: Operation) -> ProcessorClass:
    """Which class an operation is in."""
    if operation.kind is not Kind.CONVOLUTION:
        return _CLASS_OF_KIND.get(operation.kind, "other")
    data, weight = _operands(operation)
    if data is None or weight is None:
        return "convolution"
    groups = max(data.shape[1] // max(weight.shape[1], 1), 1)
    if groups == 1:
        return "convolution"
    return "depthwise" if groups == data.shape[1] else "grouped"


def _operands(operation: Operation) -> tuple[TensorType | None, TensorType | None]:
    """Data and weight of a convolution, or of its backward, which has the gradient first."""
    first = 1 if "backward" in operation.name else 0
    found = [t for t in operation.inputs[first : first + 2] if len(t.shape) > 2]
    return (found[0], found[1]) if len(found) == 2 else (None, None)


def _weight_bytes(operation: Operation) -> int:
    if operation.kind is Kind.CONVOLUTION:
        weight = _operands(operation)[1]
        return weight.num_bytes if weight is not None else 0
    if operation.kind is Kind.MATMUL:
        return operation.memory_traffic_bytes - sum(t.num_bytes for t in operation.outputs)
    return 0


def _moved_bytes(operation: Operation) -> int:
    if operation.kind is not Kind.CONVOLUTION:
        return operation.memory_traffic_bytes
    data, weight = _operands(operation)
    read = sum(t.num_bytes for t in (data, weight) if t is not None)
    return read + sum(t.num_bytes for t in operation.outputs)
