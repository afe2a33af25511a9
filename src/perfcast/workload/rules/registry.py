"""One rule per operator: from its arguments' types to its work. A missing rule is said, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from perfcast.core.dtype import DType
from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.core.tensor import TensorType


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator with types in place of tensors.

    Attributes:
        name: Operator and overload as PyTorch writes them: ``add_.Tensor``.
        args, kwargs: Tensors are ``TensorType``, lists are tuples, the rest is as passed.
        outputs: Types of the tensors returned.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[TensorType, ...]

    @property
    def operator(self) -> str:
        """Name without overload."""
        return self.name.partition(".")[0]

    @property
    def inputs(self) -> tuple[TensorType, ...]:
        """Types of all tensor arguments, lists flattened."""
        return tuple(_tensor_types((self.args, tuple(self.kwargs.values()))))

    @property
    def is_in_place(self) -> bool:
        """Whether the name says that the first argument is written."""
        return self.operator.endswith("_") and not self.operator.endswith("__")

    def arg(self, position: int, name: str, default: Any = None) -> Any:
        """An argument by position or name."""
        return self.args[position] if position < len(self.args) else self.kwargs.get(name, default)


@dataclass(frozen=True)
class OperatorWork:
    """What a rule says of a call; ``None`` takes the usual value.

    The usual traffic reads every input once and writes every output once; the usual precision is the
    first floating-point input's.
    """

    kind: OperationKind
    flops: int = 0
    executed_flops: int | None = None
    recompute_flops: int = 0
    read_bytes: int | None = None
    written_bytes: int | None = None
    compute_dtype: DType | None = None
    attributes: tuple[tuple[str, AttributeValue], ...] = ()


Rule = Callable[[OperatorCall], OperatorWork]


class RuleTable(dict[str, Rule]):
    """Rules by operator name."""

    def rule(self, *operators: str) -> Callable[[Rule], Rule]:
        """Register the decorated function for these operators."""

        def register(function: Rule) -> Rule:
            for operator in operators:
                if operator in self:
                    raise ValueError(f"two rules for {operator}")
                self[operator] = function
            return function

        return register


def _tensor_types(value: Any) -> Iterator[TensorType]:
    if isinstance(value, TensorType):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _tensor_types(item)


def bytes_of(types: tuple[TensorType, ...]) -> int:
    """Sum of distinct bytes."""
    return sum(t.num_bytes for t in types)


_FLOATS = frozenset({DType.FP64, DType.FP32, DType.BF16, DType.FP16, DType.FP8})


def precision_of(call: OperatorCall) -> DType:
    """Element type of the first floating-point tensor, inputs before outputs; else of the first tensor."""
    types = call.inputs + call.outputs
    return next((t.dtype for t in types if t.dtype in _FLOATS), types[0].dtype if types else DType.FP32)


def operation_from(call: OperatorCall, work: OperatorWork) -> Operation:
    """Fill in the usual values and build the operation."""
    inputs, outputs = call.inputs, call.outputs
    if call.is_in_place and not outputs:
        outputs = tuple(_tensor_types(call.args[:1]))
    read = bytes_of(inputs) if work.read_bytes is None else work.read_bytes
    written = bytes_of(outputs) if work.written_bytes is None else work.written_bytes
    return Operation(
        kind=work.kind,
        name=call.operator,
        inputs=inputs,
        outputs=outputs,
        compute_dtype=work.compute_dtype or precision_of(call),
        flops=work.flops,
        executed_flops=work.flops + work.recompute_flops
        if work.executed_flops is None
        else work.executed_flops,
        memory_traffic_bytes=read + written,
        recompute_flops=work.recompute_flops,
        attributes=tuple(sorted(work.attributes)),
    )
