"""Calls of an execution trace: it says which tensor is which."""

from __future__ import annotations

from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import ExecutionTrace, Opaque, TensorUse, Value, tensors_in
from perfcast.traces.marks import is_root_name
from perfcast.traces.scaling.recorded.calls import Argument, ScalingCall, TensorArgument


def calls_of_nodes(execution_trace: ExecutionTrace) -> list[ScalingCall]:
    """All operators and labels, named by their nodes' ids."""
    last = execution_trace.last_below
    return [
        ScalingCall(
            place=node.id,
            operator=node.schema.partition("(")[0].partition(".")[0] or node.name,
            overload=node.schema.partition("(")[0].partition(".")[2] or "default" if node.schema else None,
            arguments=tuple(map(_argument, node.inputs)),
            outputs=tuple(_tensor(use) for use in tensors_in(node.outputs)),
            last_below=last[node.id],
            is_operator=node.is_operator,
        )
        for node in execution_trace.nodes
        if not is_root_name(node.name)
    ]


def _argument(value: Value) -> Argument:
    if isinstance(value, TensorUse):
        return _tensor(value)
    if isinstance(value, tuple):
        return tuple(map(_argument, value))
    return None if isinstance(value, Opaque) else value


def _tensor(use: TensorUse) -> TensorArgument:
    storage = use.storage if use.storage != NONE else None
    where = storage if storage is not None else ("id", use.tensor_id)
    key = (where, use.offset_elements, use.shape, use.strides, use.dtype)
    return TensorArgument(key, storage, use.dtype, use.shape, use.strides, use.offset_elements)
