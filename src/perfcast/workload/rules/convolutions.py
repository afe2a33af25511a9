"""Convolutions of any rank, forward and backward.

Every output position meets every filter tap of its group once:
2 · batch · c_out · prod(spatial) · (c_in / groups) · prod(filter) flops, with the spatial size of the
output (of the input, if transposed). Each gradient is as much again.
"""

from __future__ import annotations

import math

from perfcast.core.dtype import DType
from perfcast.core.operation import AttributeValue, OperationKind
from perfcast.core.tensor import MemoryFormat, TensorType
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, RuleTable, bytes_of

CONVOLUTIONS = RuleTable()


def convolution_flops(input_: TensorType, weight: TensorType, output: TensorType, transposed: bool) -> int:
    """Flops of one pass; ``weight`` is [c_out, c_in / groups, *filter] (swapped if transposed)."""
    spatial = (input_ if transposed else output).shape[2:]
    return 2 * input_.shape[0] * math.prod(spatial) * math.prod(weight.shape)


@CONVOLUTIONS.rule("convolution", "_convolution", "mkldnn_convolution", "convolution_overrideable")
def convolution(call: OperatorCall) -> OperatorWork:
    """One pass."""
    transposed = bool(call.arg(6, "transposed", False))
    return OperatorWork(
        OperationKind.CONVOLUTION,
        flops=convolution_flops(call.args[0], call.args[1], call.outputs[0], transposed),
        attributes=_attributes(call.args[0], call.args[1], call.outputs[0], call.arg(8, "groups", 1)),
    )


@CONVOLUTIONS.rule("convolution_backward")
def convolution_backward(call: OperatorCall) -> OperatorWork:
    """As much as the forward for each of the gradients of input and weight that is wanted."""
    gradient, input_, weight = call.args[:3]
    transposed, groups, mask = call.args[7], call.args[9], call.args[10]
    passes = int(mask[0]) + int(mask[1])
    return OperatorWork(
        OperationKind.CONVOLUTION,
        flops=passes * convolution_flops(input_, weight, gradient, transposed),
        read_bytes=bytes_of((gradient,)) * max(passes, 1) + bytes_of((input_, weight)),
        attributes=(*_attributes(input_, weight, gradient, groups), ("passes", passes)),
    )


def convolution_format(input_: TensorType, weight: TensorType) -> MemoryFormat:
    """The memory format in which a GPU runs a convolution and writes what it makes.

    Channels last if images or filters lie so, but not in fp64 (PyTorch: aten/src/ATen/native/ConvUtils.h,
    cudnn_conv_suggest_memory_format).
    """
    if DType.FP64 in (input_.dtype, weight.dtype):
        return "contiguous"
    return "channels_last" if input_.is_channels_last or weight.is_channels_last else "contiguous"


def _attributes(
    input_: TensorType, weight: TensorType, output: TensorType, groups: int
) -> tuple[tuple[str, AttributeValue], ...]:
    """Sizes; ``memory_format`` is said where it is not that of written dims."""
    memory_format = convolution_format(input_, weight)
    return (
        ("batch", input_.shape[0]),
        ("c_in", input_.shape[1]),
        ("c_out", output.shape[1]),
        ("filter", math.prod(weight.shape[2:])),
        ("output_size", math.prod(output.shape[2:])),
        ("input_size", math.prod(input_.shape[2:])),
        ("groups", groups),
        *((("memory_format", memory_format),) if memory_format != "contiguous" else ()),
    )
