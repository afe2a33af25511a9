"""Families of operations that one fitted line covers, and what a line is a function of.

Finer than ``OperationKind`` where a processor or a library runs other code: a weight gradient is a
product of another shape class than a forward, a backward moves more than a forward, an exponential is
arithmetic where an addition is traffic, and a scattered inner dimension defeats vector loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType

Kind = OperationKind

#: Element-wise operators whose arithmetic is a polynomial or a table, not one instruction.
_TRANSCENDENTAL = frozenset(
    {
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
        "sigmoid",
        "silu",
        "silu_backward",
        "gelu",
        "gelu_backward",
        "elu",
        "mish",
        "mish_backward",
        "softplus",
        "softplus_backward",
        "log_sigmoid_forward",
        "log_sigmoid_backward",
        "glu",
        "glu_backward",
        "pow",
        "logaddexp",
        "xlogy",
        "atan",
        "atan2",
        "_thnn_fused_lstm_cell",
        "_thnn_fused_gru_cell",
        "_thnn_fused_lstm_cell_backward_impl",
        "_thnn_fused_gru_cell_backward",
    }
)
#: Iterative instructions: several cycles a value.
_DIVISIONS = frozenset("div sqrt rsqrt reciprocal addcdiv".split())
_SCANS = frozenset({"cumsum", "cumprod", "logcumsumexp", "cummax"})
_VECTOR_PRODUCTS = frozenset({"mv", "dot", "vdot", "addmv"})

#: Families whose compute line is over C[m, n] = A[m, k] · B[k, n] in shape, not over flops alone.
PRODUCT_FAMILIES = frozenset(
    {
        "matmul_nn", "matmul_nt", "matmul_tn", "batched_matmul", "grouped_matmul", "convolution",
        "convolution_backward", "grouped_convolution", "grouped_convolution_backward", "attention",
        "attention_backward", "attention_causal", "attention_backward_causal", "recurrent",
        "recurrent_backward",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Features:
    """All that a fitted line looks at.

    Attributes:
        shape: (batch, m, n, k) of a product, of which ``executed_flops`` is 2·batch·m·n·k up to a
            constant (masked pairs, several passes); None for the other families.
    """

    family: str
    dtype: DType
    executed_flops: int
    memory_traffic_bytes: int
    shape: tuple[float, float, float, float] | None = None


def features_of(operation: Operation) -> Features:
    """Family and quantities of an operation."""
    family = family_of(operation)
    shape = _product_shape(operation) if family in PRODUCT_FAMILIES else None
    return Features(
        family, operation.compute_dtype, operation.executed_flops, operation.memory_traffic_bytes, shape
    )


def family_of(operation: Operation) -> str:
    """Name of the line that prices this operation; its kind's name where the kind is one family."""
    rule = _RULES.get(operation.kind)
    if rule is not None:
        return rule(operation)
    return operation.name if operation.name == "first_touch" else operation.kind.value


def _backward(operation: Operation) -> str:
    return "_backward" if "backward" in operation.name else ""


def _convolution_family(operation: Operation) -> str:
    groups = operation.attribute("groups")
    is_grouped = isinstance(groups, int) and groups > 1
    return ("grouped_convolution" if is_grouped else "convolution") + _backward(operation)


def _softmax_family(operation: Operation) -> str:
    prefix = "safe_" if "safe" in operation.name else "log_" if "log" in operation.name else ""
    return f"{prefix}softmax{_backward(operation)}"


def _pooling_family(operation: Operation) -> str:
    kind = "adaptive" if "adaptive" in operation.name else "avg" if "avg" in operation.name else "max"
    return f"{kind}_pool{_backward(operation)}"


def _attention_family(operation: Operation) -> str:
    return f"attention{_backward(operation)}{'_causal' if operation.attribute('causal') else ''}"


def _embedding_family(operation: Operation) -> str:
    return ("embedding_bag" if "bag" in operation.name else "embedding") + _backward(operation)


def _indexing_family(operation: Operation) -> str:
    writes = any(word in operation.name for word in ("put", "add", "scatter"))
    return "indexing_backward" if writes else "indexing"


def _copy_family(operation: Operation) -> str:
    return "copy_strided" if _reads_scattered(operation) else "copy"


def _optimizer_family(operation: Operation) -> str:
    return "optimizer_foreach" if operation.name.startswith("_foreach") else "optimizer_fused"


def _plain_family(operation: Operation) -> str:
    return operation.kind.value + _backward(operation)


def _matmul_family(operation: Operation) -> str:
    if operation.name in _VECTOR_PRODUCTS:
        return "matvec"
    layout = operation.attribute("layout")
    return {"nt": "matmul_nt", "tt": "matmul_nt", "tn": "matmul_tn"}.get(str(layout), "matmul_nn")


def _elementwise_family(operation: Operation) -> str:
    name = operation.name
    if name.removesuffix("_") in ("gelu", "gelu_backward"):
        return "gelu"
    if name.removesuffix("_") in _TRANSCENDENTAL:
        return "transcendental"
    if name in _DIVISIONS:
        return "division"
    if name.endswith("_") and not name.endswith("__"):
        return "update"
    return "elementwise_strided" if _reads_scattered(operation) else "elementwise"


def _normalization_family(operation: Operation) -> str:
    """Evaluation needs no statistics: PyTorch returns empty ones."""
    if "batch_norm" not in operation.name and "group_norm" not in operation.name:
        return "layer_norm" + _backward(operation)
    has_statistics = len(operation.outputs) > 1 and operation.outputs[1].num_elements > 0
    if _backward(operation):
        return "batch_norm_backward"
    return "batch_norm" if has_statistics else "batch_norm_evaluate"


def _reduction_family(operation: Operation) -> str:
    if operation.name in _SCANS:
        return "scan"
    source = operation.inputs[0].shape if operation.inputs else ()
    target = operation.outputs[0].shape if operation.outputs else ()
    keeps_columns = len(source) >= 2 and len(target) >= 1 and source[-1] > 1 and target[-1] == source[-1]
    reduces_all_rows = len(target) <= len(source) and (len(target) < len(source) or target[:1] == (1,))
    return "reduction_columns" if keeps_columns and reduces_all_rows else "reduction_rows"


def _reads_scattered(operation: Operation) -> bool:
    """Whether a large input is spread in memory along the dimension in which the output is dense."""
    largest = max(operation.outputs, key=lambda t: t.num_elements, default=None)
    least = largest.num_elements if largest is not None else 0
    return any(_is_scattered(t, largest) for t in operation.inputs if 2 * t.num_elements >= least)


def _is_scattered(type_: TensorType, written: TensorType | None) -> bool:
    inner = _inner_axes(type_)
    if len(inner) < 2:
        return False
    if written is None or written.shape != type_.shape or len(written.strides) != len(written.shape):
        return type_.strides[inner[-1]] > 1
    dense = min(_inner_axes(written), key=lambda axis: written.strides[axis])
    return type_.strides[dense] > 1


def _inner_axes(type_: TensorType) -> list[int]:
    """Dimensions of more than one element, where strides are known."""
    return [
        axis for axis, size in enumerate(type_.shape) if size > 1 and len(type_.strides) == len(type_.shape)
    ]


_RULES: dict[OperationKind, Callable[[Operation], str]] = {
    Kind.MATMUL: _matmul_family,
    Kind.CONVOLUTION: _convolution_family,
    Kind.ATTENTION: _attention_family,
    Kind.RECURRENT: _plain_family,
    Kind.ELEMENTWISE: _elementwise_family,
    Kind.REDUCTION: _reduction_family,
    Kind.SOFTMAX: _softmax_family,
    Kind.NORMALIZATION: _normalization_family,
    Kind.EMBEDDING: _embedding_family,
    Kind.INDEXING: _indexing_family,
    Kind.POOLING: _pooling_family,
    Kind.COPY: _copy_family,
    Kind.LOSS: _plain_family,
    Kind.OPTIMIZER: _optimizer_family,
}


def _product_shape(operation: Operation) -> tuple[float, float, float, float]:
    """(batch, m, n, k); see the rules of the families for where the sizes come from."""

    def size(name: str) -> float:
        value = operation.attribute(name)
        return float(value) if isinstance(value, int | float) else 1.0

    match operation.kind:
        case Kind.CONVOLUTION:
            groups = max(size("groups"), 1.0)
            pixels = size("batch") * size("output_size")
            return groups, pixels, size("c_out") / groups, size("c_in") / groups * size("filter")
        case Kind.ATTENTION:
            return size("batch") * size("heads"), size("num_queries"), size("num_keys"), size("head_size")
        case Kind.RECURRENT:
            inputs = operation.inputs[0].shape[-1] if operation.inputs and operation.inputs[0].shape else 1
            hidden = size("hidden")
            return size("steps"), size("batch"), 4 * hidden, hidden + inputs
        case Kind.GROUPED_MATMUL:
            groups = max(size("groups"), 1.0)
            return groups, size("m") / groups, size("n"), size("k")
    return size("batch"), size("m"), size("n"), size("k")
