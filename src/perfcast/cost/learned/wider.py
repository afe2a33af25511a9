"""Products in narrow formats are no slower than the same in 16 bits while they only wait for their weights.

A library that has both kernels takes the faster one; what was measured of narrow ones is that of few shapes,
and of some programs' first kernels (vLLM's blocks of fp8, without a tuned configuration: up to ten times as
long).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.cost.learned.figures import streams_weights

_KINDS = frozenset({OperationKind.MATMUL, OperationKind.GROUPED_MATMUL})
_WIDE = "bf16"


def narrow_products(operations: Sequence[Operation], device: Device) -> list[int]:
    """Which operations are products in a narrow format that wait for their weights."""
    return [
        index
        for index, operation in enumerate(operations)
        if operation.kind in _KINDS and _is_narrow(operation) and streams_weights(operation, device)
    ]


def in_16_bits(operation: Operation, device: Device) -> Operation:
    """The same product, or experts, in bf16; in fp16 where a device has only that."""
    has_bf16 = DType.BF16 in device.matrix_flops_per_second or DType.BF16 in device.vector_flops_per_second
    facts = {name: value for name, value in operation.attributes if name != "is_quantised"}
    return replace(
        operation,
        compute_dtype=DType.BF16 if has_bf16 else DType.FP16,
        attributes=tuple(sorted((facts | {"format": _WIDE}).items())),
    )


def _is_narrow(operation: Operation) -> bool:
    name = operation.attribute("format")
    return isinstance(name, str) and name in FORMATS and FORMATS[name].is_narrow
