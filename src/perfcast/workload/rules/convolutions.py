"""Convolutions of one to three axes, forward and backward, ordinary and transposed.

Every output position meets every filter tap of its group once:
2 · batch · c_out · prod(spatial) · (c_in / groups) · prod(filter) flops, with the spatial size of the
output (of the input, if transposed). Each gradient is as much again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcast.core.convolution import (
    Convolution,
    ConvolutionPass,
    full_axes,
    transposed_pass,
)
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
    input_, weight, output = call.args[0], call.args[1], call.outputs[0]
    bias = call.arg(2, "bias")
    if call.operator == "mkldnn_convolution":  # (input, weight, bias, padding, stride, dilation, groups)
        transposed, groups = False, call.arg(6, "groups", 1)
        axes = (call.arg(4, "stride"), call.arg(3, "padding"), call.arg(5, "dilation"))
    else:  # (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        transposed, groups = bool(call.arg(6, "transposed", False)), call.arg(8, "groups", 1)
        axes = (call.arg(3, "stride"), call.arg(4, "padding"), call.arg(5, "dilation"))
    described = describe_convolution(
        input_, weight, output, axes, groups=groups, transposed=transposed, has_bias=bias is not None
    )
    return OperatorWork(
        OperationKind.CONVOLUTION,
        flops=convolution_flops(input_, weight, output, transposed),
        attributes=_attributes(input_, weight, output, groups, described),
    )


@CONVOLUTIONS.rule("convolution_backward")
def convolution_backward(call: OperatorCall) -> OperatorWork:
    """As much as the forward for each of the gradients of input and weight that is wanted."""
    gradient, input_, weight = call.args[:3]
    transposed, groups, mask = call.args[7], call.args[9], call.args[10]
    passes = int(mask[0]) + int(mask[1])
    computed: ConvolutionPass = "data_weight" if passes == 2 else "data" if mask[0] else "weight"
    described = describe_convolution(
        input_, weight, gradient, call.args[4:7], computed, groups, transposed, has_bias=bool(mask[2])
    )
    return OperatorWork(
        OperationKind.CONVOLUTION,
        flops=passes * convolution_flops(input_, weight, gradient, transposed),
        read_bytes=bytes_of((gradient,)) * max(passes, 1) + bytes_of((input_, weight)),
        attributes=(*_attributes(input_, weight, gradient, groups, described), ("passes", passes)),
    )


def describe_convolution(
    input_: TensorType,
    weight: TensorType,
    output: TensorType,
    axes: tuple[Sequence[int] | None, Sequence[int] | None, Sequence[int] | None],
    computed: ConvolutionPass = "forward",
    groups: int = 1,
    transposed: bool = False,
    has_bias: bool = False,
) -> Convolution:
    """The ordinary convolution behind a call, and the pass of it that the call computes.

    Args:
        output: Or its gradient.
        axes: Stride, padding and dilation; of one element, for all axes, as PyTorch takes them.
    """
    count = len(weight.shape) - 2
    small, large = (input_, output) if transposed else (output, input_)
    strides, paddings, dilations = (
        full_axes(_each_axis(values, count, usual), usual)
        for values, usual in zip(axes, (1, 0, 1), strict=True)
    )
    is_batched = len(input_.shape) == count + 2
    return Convolution(
        batch=input_.shape[0] if is_batched else 1,
        c_in=large.shape[-count - 1],
        c_out=small.shape[-count - 1],
        groups=groups,
        inputs=full_axes(large.shape[-count:], 1),
        filters=full_axes(weight.shape[2:], 1),
        strides=strides,
        paddings=paddings,
        dilations=dilations,
        computed=transposed_pass(computed) if transposed else computed,
        memory_format=convolution_format(input_, weight),
        has_bias=has_bias,
    )


def convolution_format(input_: TensorType, weight: TensorType) -> MemoryFormat:
    """The memory format in which a GPU runs a convolution and writes what it makes.

    Channels last if images or filters lie so, but not in fp64 (PyTorch: aten/src/ATen/native/ConvUtils.h,
    cudnn_conv_suggest_memory_format).
    """
    if DType.FP64 in (input_.dtype, weight.dtype):
        return "contiguous"
    return "channels_last" if input_.is_channels_last or weight.is_channels_last else "contiguous"


def _each_axis(values: Sequence[int] | None, count: int, usual: int) -> tuple[int, ...]:
    given = tuple(values) if values else (usual,)
    return given * count if len(given) == 1 else given


def _attributes(
    input_: TensorType, weight: TensorType, output: TensorType, groups: int, described: Convolution
) -> tuple[tuple[str, AttributeValue], ...]:
    """Sizes and geometry; ``memory_format`` is said where it is not that of written dims."""
    return (
        ("batch", input_.shape[0]),
        ("c_in", input_.shape[1]),
        ("c_out", output.shape[1]),
        ("filter", math.prod(weight.shape[2:])),
        ("output_size", math.prod(output.shape[2:])),
        ("input_size", math.prod(input_.shape[2:])),
        ("groups", groups),
        ("geometry", str(described)),
        *((("memory_format", described.memory_format),) if described.memory_format != "contiguous" else ()),
    )
