"""What NeuSight makes of an operation: calls of its nets, or bytes at peak bandwidth.

The study traces a model's forward and lists, for each operation, the kernels of its forward, its backward and
the accumulation of its gradients. A captured graph holds these as operations of their own, so each is priced
as the study prices its like: the backward of a linear layer is two products, of softmax a multiplication and
a softmax, of layer norm one multiplication, of GELU and ReLU the same operation again, of tanh a
multiplication and an addition with a scalar. Attention in one piece, which the study does not know, is priced
as the operations that it stands for: two products, a scaling and a softmax. A kernel that a compiler made
of several operations is one call, with its own bytes and the flops of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from perfcast.core.convolution import parse_convolution
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.published.comparison import print_part
from perfcast.published.neusight.nets import net_of, row_work


@dataclass(frozen=True, slots=True)
class NetKernel:
    """One kernel of a net.

    Attributes:
        operation: The study's name, which decides the net.
        shape: batch, m, k, n; or rows and their length; or batch, channels in and out, filter, image, stride
            and padding.
        work: Bytes and flops per element of the output; zero for products and convolutions.
    """

    operation: str
    shape: tuple[float, ...]
    work: tuple[float, float] = (0.0, 0.0)


Rule = Callable[[Operation], list[NetKernel]]


def calls_in(operation: Operation) -> list[NetKernel] | None:
    """Kernels that the study would count, or None where it counts bytes at peak bandwidth."""
    is_fused = operation.attribute("members") is not None
    rule = _fused if is_fused else _RULES.get(operation.name.removesuffix("_"))
    calls = rule(operation) if rule else []
    return calls or None


def _product(name: str) -> Rule:
    def rule(operation: Operation) -> list[NetKernel]:
        sizes = dict(operation.attributes)
        batch, m, k, n = (sizes.get(key) for key in ("batch", "m", "k", "n"))
        if batch is None or not all((batch, m, k, n)):
            return []
        shape = (float(batch), float(m or 0), float(k or 0), float(n or 0))
        return [NetKernel(name, shape)]

    return rule


def _elementwise(name: str) -> Rule:
    """Of two tensors, or ('addu', …) of a tensor and a number; bytes are those of inputs and output."""

    def rule(operation: Operation) -> list[NetKernel]:
        output = _output(operation)
        tensors = [t for t in operation.inputs if t.shape]
        if output.num_elements <= 1 or not tensors:
            return []
        moved = sum(t.num_elements for t in tensors) + output.num_elements
        return [_row_call(name if len(tensors) > 1 else f"{name}u", output, moved / output.num_elements)]

    return rule


def _rows(*names: str) -> Rule:
    """Kernels that read one tensor and write one, as the study counts forward and backward alike."""

    def rule(operation: Operation) -> list[NetKernel]:
        output = _output(operation)
        return [_row_call(name, output, 2.0) for name in names] if output.num_elements else []

    return rule


def _output(operation: Operation) -> TensorType:
    return (operation.outputs or operation.inputs)[0]


def _row_call(name: str, output: TensorType, tensors_moved: float) -> NetKernel:
    row = output.shape[-1] if output.shape else 1
    return NetKernel(name, (output.num_elements / row, float(row)), (4.0 * tensors_moved, row_work(name)[1]))


def _baddbmm(operation: Operation) -> list[NetKernel]:
    """A product, and an addition of two tensors."""
    return [*_product("bmm")(operation), _row_call("add", _output(operation), 3.0)]


def _fused(operation: Operation) -> list[NetKernel]:
    """A compiler's kernel: its own bytes and the flops of all members, in the net that its kind names.

    The study takes the net of the last member. A kernel that normalizes is of that kind whatever comes after;
    an element-wise one goes to one net in any case, and its last name that the study knows picks the tile.
    """
    if not operation.outputs or not operation.outputs[0].num_elements:
        return []
    if operation.kind is OperationKind.ELEMENTWISE:
        known = [part for part in operation.name.split("_") if net_of(part) == "vec"]
        name = known[-1] if known else "add"
    elif operation.kind in _ROW_KINDS:
        name = _ROW_KINDS[operation.kind]
    else:
        return []
    output = operation.outputs[0]
    bytes_each = operation.memory_traffic_bytes / output.num_elements
    flops_each = row_work(name)[1] + int(operation.attribute("members") or 1) - 1
    return [replace(_row_call(name, output, 0.0), work=(bytes_each, flops_each))]


_ROW_KINDS = {OperationKind.SOFTMAX: "softmax", OperationKind.NORMALIZATION: "ln"}


def _attention(operation: Operation) -> list[NetKernel]:
    """Scores, scaling, softmax, weighted values; each head's keys are read for itself."""
    heads, queries, keys, size, value_size = _attention_sizes(operation)
    scores = TensorType((int(heads), int(queries), int(keys)), operation.inputs[0].dtype)
    return [
        NetKernel("bmm", (heads, queries, size, keys)),
        _row_call("divu", scores, 2.0),
        _row_call("softmax", scores, 2.0),
        NetKernel("bmm", (heads, queries, keys, value_size)),
    ]


def _attention_backward(operation: Operation) -> list[NetKernel]:
    """The backward of each operation of ``_attention``."""
    heads, queries, keys, size, value_size = _attention_sizes(operation)
    scores = TensorType((int(heads), int(queries), int(keys)), operation.inputs[0].dtype)
    return [
        NetKernel("bmm", (heads, queries, value_size, keys)),
        NetKernel("bmm", (heads, keys, queries, value_size)),
        _row_call("mul", scores, 2.0),
        _row_call("softmax", scores, 2.0),
        _row_call("divu", scores, 2.0),
        NetKernel("bmm", (heads, queries, keys, size)),
        NetKernel("bmm", (heads, size, queries, keys)),
    ]


def _attention_sizes(operation: Operation) -> tuple[float, float, float, float, float]:
    """Heads of all sequences, queries, keys, sizes of keys and of values."""
    sizes = dict(operation.attributes)
    is_backward = bool(sizes.get("is_backward"))
    query, _, value = operation.inputs[is_backward : is_backward + 3]
    heads, queries, keys = math.prod(query.shape[:-2]), query.shape[-2], value.shape[-2]
    return float(heads), float(queries), float(keys), float(query.shape[-1]), float(value.shape[-1])


def _convolution(operation: Operation) -> list[NetKernel]:
    """Of the kind that the study measured: fp32, one group, square, not dilated; each gradient is one more.

    NeuSight has no net of it, Habitat and Li et al. have; any other kind is no kernel of the study.
    """
    geometry = operation.attribute("geometry")
    if not isinstance(geometry, str) or operation.compute_dtype is not DType.FP32:
        return []
    described = parse_convolution(geometry)
    axes = (described.filters, described.inputs, described.strides, described.paddings)
    is_square = all(height == width for _, height, width in axes)
    is_flat = described.filters[0] == described.inputs[0] == 1
    if not (is_square and is_flat) or described.groups != 1 or described.dilations != (1, 1, 1):
        return []
    channels = (described.batch, described.c_in, described.c_out)
    sizes = tuple(float(size) for size in (*channels, *(axis[-1] for axis in axes)))
    return [NetKernel("conv", sizes)] * described.num_passes


_RULES: Mapping[str, Rule] = {
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_backward": _convolution,
    "mm": _product("linear"),
    "addmm": _product("linear"),
    "_addmm_activation": _product("linear"),
    "bmm": _product("bmm"),
    "baddbmm": _baddbmm,
    "attention": _attention,
    "attention_backward": _attention_backward,
    "add": _elementwise("add"),
    "mul": _elementwise("mul"),
    "div": _elementwise("div"),
    "pow": _elementwise("pow"),
    "relu": _rows("relu"),
    "threshold_backward": _rows("relu"),
    "gelu": _rows("gelu"),
    "gelu_backward": _rows("gelu"),
    "tanh": _rows("tanh"),
    "tanh_backward": _rows("mulu", "addu"),
    "_softmax": _rows("softmax"),
    "_log_softmax": _rows("softmax"),
    "_safe_softmax": _rows("softmax"),
    "_softmax_backward_data": _rows("softmax"),  # the product before it is an operation of its own
    "_log_softmax_backward_data": _rows("mul", "softmax"),
    "native_layer_norm": _rows("ln"),
    "native_layer_norm_backward": _rows("mul"),
}

#: Kinds of operations whose arithmetic the nets stand for; they were trained on fp32 alone.
PRICED_KINDS = frozenset({OperationKind.MATMUL, OperationKind.BATCHED_MATMUL, OperationKind.ATTENTION})


if __name__ == "__main__":
    print_part("neusight.rules", "neusight")
