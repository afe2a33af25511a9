"""Work that a device shares with its host: copies over the link between them, and updates in host memory."""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType

TO_HOST, FROM_HOST, UPDATE_ON_HOST = "copy_to_host", "copy_from_host", "update_on_host"
HOST_NAMES = frozenset({TO_HOST, FROM_HOST, UPDATE_ON_HOST})


def host_copy(name: str, num_elements: int, dtype: DType) -> Operation:
    """A copy over the link; its bytes cross it once, which is what ``memory_traffic_bytes`` says."""
    x = TensorType((num_elements,), dtype)
    return Operation(OperationKind.COPY, name, (x,), (x,), dtype, 0, 0, x.num_bytes)


def host_update(num_elements: int, read: tuple[DType, ...], written: tuple[DType, ...]) -> Operation:
    """An optimizer's pass over host memory."""
    inputs = tuple(TensorType((num_elements,), dtype) for dtype in read)
    outputs = tuple(TensorType((num_elements,), dtype) for dtype in written)
    traffic = sum(t.num_bytes for t in (*inputs, *outputs))
    return Operation(
        OperationKind.OPTIMIZER,
        UPDATE_ON_HOST,
        inputs,
        outputs,
        DType.FP32,
        num_elements,
        num_elements,
        traffic,
    )


def uses_host(operation: Operation) -> bool:
    """Whether the host's link or memory, not the device's memory, sets the time."""
    return operation.name in HOST_NAMES
