"""Recorded operators as operations that a cost model can price.

A recording says an operator's name and the shapes, types and strides of its arguments, not its results. Those
follow from running the operator on tensors without memory (torch's meta device), which computes shapes and
touches no data. Only ATen operators that have a rule are run, by validated name; one for which that fails
gets its largest argument as its result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfcast.core.arrays import Integers
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.core.tensor import TensorType
from perfcast.files.plain import json_or_none
from perfcast.traces.dtype_words import core_dtype
from perfcast.traces.events import NONE, Category, OperatorInputs, Trace
from perfcast.traces.scaling.blanks.run import dense_strides

_NAME = re.compile(r"aten::(_?[a-z][a-z0-9_]{0,80})")
_MAX_DIMS, _MAX_TENSORS, _MAX_ELEMENTS = 12, 512, 2**48


@dataclass
class RecordedOperations:
    """Operations of a trace's operators, made once for each different call.

    Attributes:
        inputs_of: What the operator of a row is called with; None: as recorded.
    """

    trace: Trace
    parents: Integers
    inputs_of: Callable[[int], OperatorInputs | None] | None = None
    _known: dict[tuple[int, OperatorInputs], Operation | None] = field(default_factory=dict)

    def of(self, row: int) -> Operation | None:
        """The operation of the innermost operator around a row (itself included) that has a rule; or None."""
        row = self.row_of(row)
        return self.at(row) if row != NONE else None

    def row_of(self, row: int) -> int:
        """The innermost operator around a row (itself included) that has a rule; NONE where there is none."""
        events = self.trace.events
        while row != NONE:
            is_call = events.categories[row] == Category.OPERATOR and events.inputs[row] != NONE
            if is_call and self.at(row) is not None:
                return row
            row = int(self.parents[row])
        return NONE

    def at(self, row: int) -> Operation | None:
        """The operation of an operator itself; None where it has no rule, or no shapes were recorded."""
        events = self.trace.events
        inputs = (self.inputs_of or events.inputs_of)(row)
        if inputs is None:
            return None
        key = (int(events.name_codes[row]), inputs)
        if key not in self._known:
            self._known[key] = operation_of_call(events.name(row), inputs)
        return self._known[key]


def operation_of_call(name: str, inputs: OperatorInputs) -> Operation | None:
    """A recorded call as an operation; None for an operator without a rule, or with impossible arguments."""
    from perfcast.workload.rules import RULES, OperatorCall, operation_of

    match = _NAME.fullmatch(name)
    if match is None or not ({match.group(1), match.group(1).removesuffix("_")} & RULES.keys()):
        return None
    try:
        args = tuple(_arguments(inputs))
    except ValueError:
        return None
    tensors = [a for a in _flat(args) if isinstance(a, TensorType)]
    outputs = _outputs(match.group(1), args) or tuple(sorted(tensors, key=lambda t: -t.num_elements)[:1])
    try:
        return operation_of(OperatorCall(match.group(1), args, {}, outputs))
    except (ValueError, TypeError, IndexError, AttributeError, KeyError, ZeroDivisionError, StopIteration):
        return None  # a rule for other arguments than these (an overload that graphs never hold)


def lower_for(operations: Sequence[Operation], device: Device, dtype: str) -> list[Operation]:
    """The operations as a device would run them."""
    from perfcast.workload.lower import lower

    return list(lower(Graph((), tuple(operations), (), ()), device, dtype).operations)


def _arguments(inputs: OperatorInputs) -> list[Any]:
    """Types for tensors, tuples of them for lists, plain values for the rest."""
    found: list[Any] = []
    for index, type_ in enumerate(inputs.types):
        shape = inputs.shapes[index] if index < len(inputs.shapes) else ()
        stride = inputs.strides[index] if index < len(inputs.strides) else ()
        value = inputs.values[index] if index < len(inputs.values) else ""
        dtype = core_dtype(type_)
        if dtype is not None:
            found.append(_tensor(shape, stride, dtype))
        elif type_ == "TensorList":
            found.append(_tensor_list(shape))
        else:
            found.append(_value(value))
    return found


def _tensor(shape: object, stride: object, dtype: DType) -> TensorType:
    if not isinstance(shape, tuple) or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"shape {shape}")
    if len(shape) > _MAX_DIMS or math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"shape {shape}")
    known = isinstance(stride, tuple) and len(stride) == len(shape)
    steps = tuple(step for step in stride if isinstance(step, int)) if isinstance(stride, tuple) else ()
    return TensorType(shape, dtype, dense_strides(shape, shape, steps if known else None))


def _tensor_list(shape: object) -> tuple[TensorType, ...]:
    if not isinstance(shape, tuple) or len(shape) > _MAX_TENSORS:
        raise ValueError("a list of tensors")
    return tuple(_tensor(part, (), DType.FP32) for part in shape)


def _value(text: str) -> Any:
    """A recorded scalar or list of numbers; None for what is neither."""
    words = {"": None, "True": True, "False": False, "inf": math.inf, "-inf": -math.inf}
    if text in words:
        return words[text]
    plain = text.replace("True", "true").replace("False", "false")
    value = json_or_none(re.sub(r"(\d)\.(?!\d)", r"\1.0", plain))
    if isinstance(value, list):
        return tuple(v for v in value if isinstance(v, int | float))
    return value if isinstance(value, int | float | bool) else None


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [item for part in value for item in _flat(part)]
    return [value]


def _outputs(name: str, args: tuple[Any, ...]) -> tuple[TensorType, ...]:
    """Types that the operator returns; nothing where it cannot be run without data."""
    import torch

    from perfcast.workload.capture.types import TORCH_DTYPES, tensor_type

    torch_of = {ours: theirs for theirs, ours in reversed(TORCH_DTYPES.items())}

    def without_data(value: Any) -> Any:
        if isinstance(value, TensorType):
            return torch.empty_strided(value.shape, value.strides, dtype=torch_of[value.dtype], device="meta")
        return [without_data(item) for item in value] if isinstance(value, tuple) else value

    packet = getattr(torch.ops.aten, name, None)
    values = [without_data(arg) for arg in args]
    for overload in packet.overloads() if packet is not None else ():
        operator = getattr(packet, overload)
        names = [argument.name for argument in operator._schema.arguments]
        num_positional = sum(not argument.kwarg_only for argument in operator._schema.arguments)
        if overload.endswith("out") or len(values) > len(names):
            continue
        named = dict(zip(names[num_positional:], values[num_positional:], strict=False))
        try:
            with torch.no_grad():
                result = operator(*values[:num_positional], **named)
        except Exception:  # whatever an operator says to arguments of another overload or device
            continue
        tensors = result if isinstance(result, list | tuple) else [result]
        known = [t for t in tensors if isinstance(t, torch.Tensor) and t.dtype in TORCH_DTYPES]
        return tuple(map(tensor_type, known))  # the state of a generator of random numbers is none of them
    return ()
