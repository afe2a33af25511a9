"""A captured graph made a device's own: which kernel runs an attention, in which precision products are."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind

#: First compute capability with a flash-attention kernel in PyTorch, and its largest head.
_FLASH_CAPABILITY, _FLASH_HEAD_SIZE = 8.0, 256


def lower(graph: Graph, device: Device, dtype: str) -> Graph:
    """The graph with every operation as ``device`` would run it.

    Args:
        dtype: 'tf32' lets products of fp32 tensors run in TF32 on the matrix units; 'fp32' lets convolutions.
    """
    operations = tuple(_lower_operation(operation, device, dtype) for operation in graph.operations)
    return replace(graph, operations=operations)


def _lower_operation(operation: Operation, device: Device, dtype: str) -> Operation:
    if operation.compute_dtype is DType.FP32 and _runs_in_tf32(operation, device, dtype):
        operation = replace(operation, compute_dtype=DType.TF32)
    if operation.kind is OperationKind.ATTENTION:
        kernel = attention_kernel(operation, device)
        operation = replace(operation, attributes=(*operation.attributes, ("kernel", kernel)))
    return operation


def _runs_in_tf32(operation: Operation, device: Device, dtype: str) -> bool:
    """Products where it is asked for; convolutions wherever cuDNN can, as PyTorch has it by default.

    (PyTorch, "Numerical accuracy", TensorFloat-32: ``torch.backends.cudnn.allow_tf32`` is True,
    ``torch.backends.cuda.matmul.allow_tf32`` is False.)
    """
    if dtype == "tf32":
        return operation.uses_matrix_units
    is_convolution = operation.kind is OperationKind.CONVOLUTION
    return is_convolution and device.vendor == "nvidia" and DType.TF32 in device.matrix_flops_per_second


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
