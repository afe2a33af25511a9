"""Operations of a captured graph → kernels in columns.

A table row and a graph's operation describe one kernel in the same sizes; from here on nothing knows
which of the two it was. Kernels of a graph are *cold*: each layer's weights come from memory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.convolution import Convolution, parse_convolution
from perfcast.core.dtype import DType
from perfcast.core.kernel import SIZES, WORDS, KernelFamily, KernelTable
from perfcast.core.operation import Operation, OperationKind
from perfcast.cost.families import family_of
from perfcast.cost.learned.families.convolution_narrow import CONVOLUTION_NAMES
from perfcast.cost.learned.families.row_operations import MEASURED
from perfcast.cost.learned.relatives import (
    experts_library,
    measured_format,
    measured_library,
    products_library,
)
from perfcast.frameworks.load import load_inference_profiles
from perfcast.units import MIB

Kind = OperationKind
Values = tuple[float | str, ...]

DEFAULT_FRAMEWORK = "pytorch"


@dataclass(frozen=True)
class Translation:
    """Kernels by family, and which operation each came from.

    Attributes:
        tables: Cold kernels.
        sources: Index of the operation of each kernel, shape [n].
        repeats: Runs of each kernel in its operation (steps of a recurrent layer, passes), shape [n].
    """

    tables: Mapping[KernelFamily, KernelTable]
    sources: Mapping[KernelFamily, Integers]
    repeats: Mapping[KernelFamily, Floats]


@dataclass(frozen=True, slots=True)
class _Runs:
    """Who runs the kernels: whose kernels, and on whose devices."""

    framework: str
    vendor: str
    architecture: str


def translate(
    operations: Sequence[Operation],
    framework: str = DEFAULT_FRAMEWORK,
    vendor: str = "nvidia",
    architecture: str = "",
) -> Translation:
    """All operations that run a kernel and have a rule; the others appear in no table.

    Args:
        vendor: Of the device: formats that were measured on another's stand for those that were not.
        architecture: Of the device: libraries that run another's kernels on it.
    """
    runs = _Runs(framework, vendor, architecture)
    cells: defaultdict[KernelFamily, list[float | str]] = defaultdict(list)
    sources: defaultdict[KernelFamily, list[int]] = defaultdict(list)
    repeats: defaultdict[KernelFamily, list[float]] = defaultdict(list)
    for index, operation in enumerate(operations):
        kind = operation.kind
        if kind is Kind.ALLOCATION or kind is Kind.UNKNOWN:
            continue
        family, values, times = _TRANSLATORS.get(kind, _rows)(operation, runs)
        cells[family] += values
        sources[family].append(index)
        repeats[family].append(times)
    return Translation(
        tables={family: _table(family, values) for family, values in cells.items()},
        sources={family: np.array(values, dtype=np.int64) for family, values in sources.items()},
        repeats={family: np.array(values, dtype=np.float64) for family, values in repeats.items()},
    )


def _table(family: KernelFamily, cells: Sequence[float | str]) -> KernelTable:
    """Cells row by row, sizes before words."""
    names = (*SIZES[family], *WORDS[family])
    kinds = [np.float64] * len(SIZES[family]) + [object] * len(WORDS[family])
    built = {
        name: np.array(cells[at :: len(names)], dtype=kind)
        for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
    return KernelTable(family, built, is_cold=True)


def _framework(framework: str, family: KernelFamily) -> str:
    """Whose measured kernels stand for a framework's."""
    return load_inference_profiles()[framework].kernels.get(family, framework)


def _number(attributes: Mapping[str, object], name: str, default: float = 1.0) -> float:
    value = attributes.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else default


def _products(operation: Operation, runs: _Runs) -> tuple[KernelFamily, Values, float]:
    kind, attributes = operation.kind, dict(operation.attributes)
    if kind is Kind.GROUPED_MATMUL and "experts_per_token" in attributes:
        return _experts(operation, attributes, runs)
    if kind is Kind.MATMUL and family_of(operation) == "matvec":
        return _rows(operation, runs)
    if kind is Kind.RECURRENT:
        sizes, times = _recurrent_sizes(operation, attributes)
    elif kind is Kind.GROUPED_MATMUL:
        sizes, times = _grouped_sizes(operation, attributes), 1.0
    else:
        batch, m = _number(attributes, "batch"), _number(attributes, "m")
        sizes, times = (batch, m, _number(attributes, "n"), _number(attributes, "k")), 1.0
    name = "bmm" if kind is Kind.BATCHED_MATMUL or kind is Kind.GROUPED_MATMUL else "linear"
    family = KernelFamily.PRODUCT
    dtype = _matrix_format(operation, family, runs)
    own = "pytorch" if dtype in ("fp32", "fp64") else _framework(runs.framework, family)
    library = products_library(own, dtype, runs.architecture)
    return family, (*sizes, name, str(attributes.get("layout", "nn")), dtype, library), times


def _matrix_format(operation: Operation, family: KernelFamily, runs: _Runs) -> str:
    """The format that an operation states, else its type's, as it was measured.

    fp16 and bf16 run at one rate with the same kernels, and bf16 was measured.
    """
    stated = operation.attribute("format") if operation.attributes else None
    name = stated if isinstance(stated, str) else _FORMATS[operation.compute_dtype]
    return measured_format(name, family, runs.vendor)


def _experts(
    operation: Operation, attributes: Mapping[str, object], runs: _Runs
) -> tuple[KernelFamily, Values, float]:
    """All that follows the router, as serving frameworks run it: sorted rows, two products, weighted sum.

    ``num_tokens`` are those of all ranks that share the experts.
    """
    sizes = tuple(_number(attributes, name) for name in SIZES[KernelFamily.EXPERTS])
    name = "moe_cold" if attributes.get("is_gated") else "moe_ungated_cold"
    family = KernelFamily.EXPERTS
    popularity = str(attributes.get("popularity", "balanced"))
    format_name = _matrix_format(operation, family, runs)
    library = experts_library(
        _framework(runs.framework, family),
        format_name,
        runs.architecture,
        num_tokens=_number(attributes, "num_tokens"),
        expert_parallel=_number(attributes, "expert_parallel"),
    )
    return family, (*sizes, name, popularity, format_name, library), 1.0


def _grouped_sizes(
    operation: Operation, attributes: Mapping[str, object]
) -> tuple[float, float, float, float]:
    """A product for each group, of its share of the rows; of the weights' gradient, of its share of k."""
    m, n, k = (_number(attributes, name) for name in ("m", "n", "k"))
    groups = _number(attributes, "groups")
    if len(operation.inputs) > 1 and len(operation.inputs[1].shape) == 2:
        return groups, m, n, max(1.0, k / groups)
    used = min(groups, m)
    return used, m / used, n, k


def _recurrent_sizes(
    operation: Operation, attributes: Mapping[str, object]
) -> tuple[tuple[float, float, float, float], float]:
    """One step's product with both weight matrices side by side, and how often it runs.

    n counts the gates' outputs; the flops tell them, for a cell of any kind.
    """
    batch, hidden = _number(attributes, "batch"), _number(attributes, "hidden")
    inputs = operation.inputs[0].shape[-1] if operation.inputs and operation.inputs[0].shape else 1
    times = _number(attributes, "steps") * _number(attributes, "passes")
    k = hidden + inputs
    return (1.0, batch, max(1.0, operation.flops / (2 * times * batch * k)), k), times


def _convolutions(operation: Operation, runs: _Runs) -> tuple[KernelFamily, Values, float]:
    text = operation.attribute("geometry")
    described = parse_convolution(text) if isinstance(text, str) else _square_convolution(operation)
    axes = (described.inputs, described.filters, described.strides, described.paddings, described.dilations)
    channels = (described.batch, described.c_in, described.c_out, described.groups)
    sizes = (*channels, *(size for axis in axes for size in axis), described.has_bias)
    dtype = _FORMATS[operation.compute_dtype]
    is_wide = dtype in ("fp32", "fp64")
    name = "convolution" if is_wide else CONVOLUTION_NAMES[described.computed]
    words = (name, described.memory_format, dtype, "pytorch")
    times = float(described.num_passes) if is_wide else 1.0
    return KernelFamily.CONVOLUTION, (*(float(size) for size in sizes), *words), times


def _square_convolution(operation: Operation) -> Convolution:
    """Of an operation made by hand that states sizes alone: a square image, filter, stride and padding."""
    attributes = dict(operation.attributes)
    side = max(1, round(_number(attributes, "input_size") ** 0.5))
    taps = max(1, round(_number(attributes, "filter") ** 0.5))
    out = max(1, round(_number(attributes, "output_size") ** 0.5))
    stride = max(1, round(side / out))
    padding = max(0, math.ceil(((out - 1) * stride + taps - side) / 2))
    batch, c_in, c_out, groups = (
        round(_number(attributes, name)) for name in ("batch", "c_in", "c_out", "groups")
    )
    return Convolution(
        batch=batch,
        c_in=c_in,
        c_out=c_out,
        groups=groups,
        inputs=(1, side, side),
        filters=(1, taps, taps),
        strides=(1, stride, stride),
        paddings=(0, padding, padding),
        dilations=(1, 1, 1),
        computed="data_weight" if "backward" in operation.name else "forward",
    )


def _attention(operation: Operation, runs: _Runs) -> tuple[KernelFamily, Values, float]:
    attributes = dict(operation.attributes)
    queries, keys = _number(attributes, "num_queries"), _number(attributes, "num_keys")
    causal = bool(attributes.get("causal"))
    name = "generation" if queries == 1 else "context" if causal else "encoder"
    if attributes.get("is_backward"):
        name = "context_backward"
    elif attributes.get("is_latent"):
        name = "mla_generation" if queries == 1 else "mla_context"
    head_size = _number(attributes, "head_size")
    value_size = _number(attributes, "value_head_size", head_size)
    family = KernelFamily.ATTENTION
    dtype = _matrix_format(operation, family, runs)
    keys_dtype = measured_format(str(attributes.get("keys_format", dtype)), family, runs.vendor)
    sizes = (
        _number(attributes, "batch"),
        queries,
        keys,
        _number(attributes, "heads"),
        _number(attributes, "kv_heads"),
        head_size,
        value_size,
        _number(attributes, "window", 0.0),
        float(causal),
    )
    library = measured_library(_framework(runs.framework, family), name)
    words = (name, dtype, keys_dtype, library)
    return family, (*sizes, *words), 1.0


#: Kernels of a gated delta rule of prompts and of new tokens, newest first, as they were measured: vLLM's
#: prompts go through FlashInfer's, others' through Triton's.
_STATE_KERNELS: Mapping[tuple[str, bool], Mapping[str, str]] = {
    ("causal_conv1d", False): {"": "causal_conv1d_fn"},
    ("causal_conv1d", True): {"": "causal_conv1d_update"},
    ("gated_delta_rule", False): {"vllm": "chunk_gated_delta_rule_flashinfer", "": "chunk_gated_delta_rule"},
    ("gated_delta_rule", True): {
        "trtllm": "fused_recurrent_gated_delta_rule",
        "": "fused_recurrent_gated_delta_rule_packed_decode",
    },
}


def _linear_attention(operation: Operation, runs: _Runs) -> tuple[KernelFamily, Values, float]:
    family, attributes = KernelFamily.SCAN, dict(operation.attributes)
    is_decode = bool(attributes.get("is_decode"))
    library = _framework(runs.framework, family)
    names = _STATE_KERNELS.get((operation.name, is_decode))
    if names is None:
        return _rows(operation, runs)
    sizes = tuple(_number(attributes, name, 0.0) for name in SIZES[family])
    phase = "generation" if is_decode else "context"
    return family, (*sizes, names.get(library, names[""]), phase, "bf16", library), 1.0


#: Of a table that is looked up, or a cache that one row is put into, the traffic is the part touched.
_TOUCH_PARTS = frozenset({Kind.EMBEDDING, Kind.INDEXING, Kind.SORT})


def _rows(operation: Operation, runs: _Runs) -> tuple[KernelFamily, Values, float]:
    traffic = float(operation.memory_traffic_bytes)
    written = float(sum([t.num_bytes for t in operation.outputs]))
    written = min(max(written, 1.0), max(traffic, 1.0))
    elements, shape = 1.0, tuple[int, ...]()
    touches_all = operation.kind not in _TOUCH_PARTS
    for tensor in (*operation.inputs, *operation.outputs):
        count = math.prod(tensor.shape)
        if not touches_all:
            count = min(count, int(traffic * 8 / tensor.dtype.bits))
        if count > elements or not shape:
            elements, shape = float(max(count, 1)), tensor.shape
    shared = shared_elements(operation)
    stated = shared or (operation.attribute("row") if operation.attributes else None)
    length = float(stated) if isinstance(stated, int) and stated > 0 else _last(shape)
    length = min(length, elements)
    values = (max(1.0, elements / length), length, max(traffic - written, 0.0), written)
    words = (row_operation(operation, runs.vendor), _FORMATS[operation.compute_dtype], "pytorch")
    return KernelFamily.ROWS, (*values, *words), 1.0


def _last(shape: Sequence[int]) -> float:
    return float(shape[-1]) if shape and shape[-1] > 0 else 1.0


def row_operation(operation: Operation, vendor: str = "nvidia") -> str:
    """Name under which a kernel over rows was measured, or its family's; ROCm has kernels of its own."""
    plain = operation.name.removesuffix("_")
    family = family_of(operation)
    if shared_elements(operation):
        return "elementwise_broadcast"
    if operation.kind is Kind.ELEMENTWISE and plain in MEASURED and family != "elementwise_strided":
        return plain
    if family == "layer_norm_backward" and operation.attribute("kernels") == 2:
        return f"{family}_rocm" if vendor == "amd" else family
    return _MEASURED_NAMES.get(family, family)


#: Smaller operands are in every last-level cache.
_LEAST_SHARED_BYTES = 1 * MIB


def shared_elements(operation: Operation) -> int:
    """Elements of an operand that rows of that many elements of the output share, 0 for none of any size.

    A mask [1, 1, s, s] that is added to scores [b, h, s, s] is read by every head: s · s elements.
    """
    if operation.kind is not Kind.ELEMENTWISE or not operation.outputs:
        return 0
    output = operation.outputs[0]
    found = 0
    for tensor in operation.inputs:
        if tensor.dtype is output.dtype and 1 < tensor.num_elements < output.num_elements:
            found = max(found, _elements_below_the_repeated(tensor.shape, output.shape))
    return found if output.dtype.bytes_of(found) >= _LEAST_SHARED_BYTES else 0


def _elements_below_the_repeated(shape: Sequence[int], over: Sequence[int]) -> int:
    """Of the dims behind the last one that an operand has once and the output more often."""
    count = 1
    for size, wide in zip(reversed(shape), reversed(over), strict=False):
        if size != wide:
            break
        count *= size
    return count


_MEASURED_NAMES = {"layer_norm": "ln", "layer_norm_backward": "ln_backward", "safe_softmax": "softmax"}


#: Measured format of each element type. Other integers, booleans and complex numbers compute as fp32 does;
#: fp6 and fp4 by their measured block formats.
_FORMATS: dict[DType, str] = {
    **dict.fromkeys(DType, "fp32"),
    **{d: d.label for d in (DType.FP64, DType.TF32, DType.BF16, DType.FP16, DType.FP8, DType.INT8)},
    DType.FP6: "fp8",
    DType.FP4: "nvfp4",
    DType.INT4: "int4_wo",
}

_Translator = Callable[[Operation, _Runs], tuple[KernelFamily, Values, float]]
_TRANSLATORS: dict[OperationKind, _Translator] = {
    Kind.MATMUL: _products,
    Kind.BATCHED_MATMUL: _products,
    Kind.GROUPED_MATMUL: _products,
    Kind.RECURRENT: _products,
    Kind.CONVOLUTION: _convolutions,
    Kind.ATTENTION: _attention,
    Kind.LINEAR_ATTENTION: _linear_attention,
}
