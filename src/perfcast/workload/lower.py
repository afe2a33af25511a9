"""A captured graph made a device's own: which kernel runs an attention, in which precision products are."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph
from perfcast.core.hardware import Device
from perfcast.core.operation import Operation, OperationKind

#: First compute capability with a flash-attention kernel in PyTorch, and its largest head.
_FLASH_CAPABILITY, _FLASH_HEAD_SIZE = 8.0, 256


def lower(graph: Graph, device: Device, dtype: str) -> Graph:
    """The graph with every operation as ``device`` would run it.

    Args:
        dtype: 'tf32' lets products of fp32 tensors run in TF32 on the matrix units.
    """
    operations = tuple(_lower_operation(operation, device, dtype) for operation in graph.operations)
    return replace(graph, operations=operations)


def _lower_operation(operation: Operation, device: Device, dtype: str) -> Operation:
    if dtype == "tf32" and operation.uses_matrix_units and operation.compute_dtype is DType.FP32:
        operation = replace(operation, compute_dtype=DType.TF32)
    if operation.kind is OperationKind.ATTENTION:
        kernel = attention_kernel(operation, device)
        operation = replace(operation, attributes=(*operation.attributes, ("kernel", kernel)))
    return operation


def attention_kernel(operation: Operation, device: Device) -> str:
    """'flash' for half-precision heads on devices that have it, else 'memory_efficient'.

    Both keep scores on the chip. (PyTorch, "scaled_dot_product_attention": FlashAttention needs compute
    capability 8.0, fp16 or bf16 and heads of at most 256; the memory-efficient kernel takes the rest.)
    """
    head_size = operation.attribute("head_size")
    is_half = operation.inputs[0].dtype in (DType.BF16, DType.FP16)
    if device.vendor == "nvidia":
        is_new = float(device.compute_capability or 0) >= _FLASH_CAPABILITY
    else:
        is_new = device.architecture in ("cdna2", "cdna3", "cdna4")
    fits = isinstance(head_size, int) and head_size <= _FLASH_HEAD_SIZE
    return "flash" if is_half and is_new and fits else "memory_efficient"
