"""Operations of a transformer by their sizes, as a captured graph holds them.

C[m, n] = A[m, k] · B[k, n]; a layout's letters say whether A and B lie transposed in memory ('nt' a forward
of a linear layer, 'nn' the gradient of its input, 'tn' that of its weight).
"""

from __future__ import annotations

from functools import lru_cache

from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.core.tensor import TensorType

Types = tuple[TensorType, ...]
Kind = OperationKind
_NARROW_BITS = 8


def scale_bytes(format_name: str, activations: int, weights: int) -> int:
    """Bytes of the scales of a product's operands."""
    form = FORMATS[format_name]
    return form.activation.scale_bytes_of(activations) + form.weight.scale_bytes_of(weights)


@lru_cache(maxsize=65536, typed=True)
def tensor(dtype: DType, *shape: int) -> TensorType:
    """Dense, in row order."""
    return TensorType(shape, dtype)


@lru_cache(maxsize=65536, typed=True)
def rows_kernel(
    kind: Kind,
    name: str,
    reads: Types,
    writes: Types,
    *,
    flops_per_element: int = 1,
    row: int = 0,
    traffic_bytes: int | None = None,
) -> Operation:
    """A kernel that reads and writes tensors once; ``row``: elements that it treats together."""
    largest = max((t.num_elements for t in (*reads, *writes)), default=0)
    flops = flops_per_element * largest
    if traffic_bytes is None:
        traffic_bytes = sum(t.num_bytes for t in reads) + sum(t.num_bytes for t in writes)
    attributes: tuple[tuple[str, AttributeValue], ...] = (("row", row),) if row else ()
    dtype = (reads or writes)[0].dtype
    return Operation(kind, name, reads, writes, dtype, flops, flops, traffic_bytes, 0, attributes)


def elementwise(name: str, reads: Types, writes: Types, *, flops_per_element: int = 1) -> Operation:
    """A kernel over elements."""
    return rows_kernel(Kind.ELEMENTWISE, name, reads, writes, flops_per_element=flops_per_element)


@lru_cache(maxsize=65536)
def product(
    m: int,
    n: int,
    k: int,
    layout: str,
    element: DType,
    precision: DType,
    *,
    out: DType | None = None,
    has_bias: bool = False,
    accumulates: bool = False,
    format_name: str = "",
) -> Operation:
    """A matrix product; ``accumulates``: its output is added to what lies in memory.

    Args:
        format_name: Of operands whose blocks have scales.
    """
    is_narrow = precision.bits <= _NARROW_BITS
    stored = precision if is_narrow else element
    a = TensorType((m, k), stored, (1, m) if layout[0] == "t" else (k, 1))
    b = TensorType((k, n), stored, (1, k) if layout[1] == "t" else (n, 1))
    c = TensorType((m, n), out or element, (n, 1))
    bias = (tensor(element, n),) if has_bias else ()
    flops = 2 * m * n * k
    traffic = sum(t.num_bytes for t in (a, b, c, *bias)) + (c.num_bytes if accumulates else 0)
    name = "_scaled_mm" if is_narrow else "addmm" if has_bias else "mm"
    attributes: tuple[tuple[str, AttributeValue], ...] = (
        ("batch", 1), ("k", k), ("layout", layout), ("m", m), ("n", n),
    )  # fmt: skip
    if format_name:
        attributes = tuple(sorted((*attributes, ("format", format_name))))
        traffic += scale_bytes(format_name, m * k, k * n)
    inputs = (*bias, a, b)
    return Operation(Kind.MATMUL, name, inputs, (c,), precision, flops, flops, traffic, 0, attributes)


@lru_cache(maxsize=16384)
def batched_product(
    batch: int, m: int, n: int, k: int, layout: str, element: DType, precision: DType
) -> Operation:
    """``batch`` products of one size."""
    a = TensorType((batch, m, k), element, (m * k, 1, m) if layout[0] == "t" else (m * k, k, 1))
    b = TensorType((batch, k, n), element, (k * n, 1, k) if layout[1] == "t" else (k * n, n, 1))
    c = tensor(element, batch, m, n)
    flops = 2 * batch * m * n * k
    traffic = a.num_bytes + b.num_bytes + c.num_bytes
    attributes = (("batch", batch), ("k", k), ("layout", layout), ("m", m), ("n", n))
    return Operation(
        Kind.BATCHED_MATMUL, "bmm", (a, b), (c,), precision, flops, flops, traffic, 0, attributes
    )


@lru_cache(maxsize=16384)
def attention(
    batch: int,
    heads: int,
    kv_heads: int,
    num_queries: int,
    num_keys: int,
    head_size: int,
    dtype: DType,
    *,
    causal: bool,
    is_backward: bool = False,
    value_head_size: int | None = None,
) -> Operation:
    """A fused kernel of scaled dot-product attention; work as ``workload.rules.attention`` derives it."""
    value_size = value_head_size or head_size
    query = tensor(dtype, batch, heads, num_queries, head_size)
    key = tensor(dtype, batch, kv_heads, num_keys, head_size)
    value = tensor(dtype, batch, kv_heads, num_keys, value_size)
    output = tensor(dtype, batch, heads, num_queries, value_size)
    statistic = tensor(DType.FP32, batch, heads, num_queries)
    pairs = batch * heads * num_queries * num_keys
    flops = 2 * pairs * (head_size + value_size) * (2 if is_backward else 1)
    again = 2 * pairs * head_size if is_backward else 0
    share = visible_share(num_queries, num_keys) if causal else 1.0
    inputs: Types = (query, key, value)
    outputs: Types = (output, statistic)
    if is_backward:
        inputs, outputs = (output, query, key, value, output, statistic), (query, key, value)
    sizes: dict[str, AttributeValue] = {
        "batch": batch, "causal": causal, "head_size": head_size, "heads": heads, "is_backward": is_backward,
        "kv_heads": kv_heads, "num_keys": num_keys, "num_queries": num_queries,
    }  # fmt: skip
    if value_size != head_size:
        sizes["value_head_size"] = value_size
    return Operation(
        Kind.ATTENTION,
        "attention_backward" if is_backward else "attention",
        inputs,
        outputs,
        dtype,
        flops,
        int((flops + again) * share),
        sum(t.num_bytes for t in (*inputs, *outputs)),
        int(again * share),
        tuple(sorted(sizes.items())),
    )


def visible_share(num_queries: int, num_keys: int) -> float:
    """Part of the pairs that a causal mask, aligned to the first key, lets through."""
    triangle = min(num_queries, num_keys)
    full_rows = num_queries - triangle
    return (triangle * (triangle + 1) / 2 + full_rows * num_keys) / (num_queries * num_keys)


def norm(
    name: str, rows: int, size: int, dtype: DType, *, is_backward: bool = False, has_bias: bool = False
) -> Operation:
    """A fused norm over rows. Its backward reads what came in and the gradient, twice where rows are long."""
    x, weight = tensor(dtype, rows, size), tensor(dtype, size)
    weights = (weight, weight) if has_bias else (weight,)
    statistic = tensor(DType.FP32, rows)
    if is_backward:
        reads, writes, flops = (x, x, statistic, *weights), (x, *weights), 14 if has_bias else 10
    else:
        reads, writes, flops = (x, *weights), (x, statistic), 8 if has_bias else 5
    full = f"{name}_backward" if is_backward else name
    return rows_kernel(Kind.NORMALIZATION, full, reads, writes, flops_per_element=flops, row=size)


def softmax(
    rows: int, size: int, read: DType, write: DType, *, is_backward: bool = False, is_log: bool = False
) -> Operation:
    """Over rows of scores; its backward reads the probabilities and their gradient."""
    x, y = tensor(read, rows, size), tensor(write, rows, size)
    name = "_log_softmax" if is_log else "_softmax"
    if is_backward:
        return rows_kernel(Kind.SOFTMAX, f"{name}_backward_data", (x, x), (y,), flops_per_element=4, row=size)
    return rows_kernel(Kind.SOFTMAX, name, (x,), (y,), flops_per_element=5, row=size)


def dropout(rows: int, size: int, dtype: DType) -> Operation:
    """Draws and keeps a mask of one byte an element."""
    x, mask = tensor(dtype, rows, size), tensor(DType.BOOL, rows, size)
    return rows_kernel(Kind.RANDOM, "native_dropout", (x,), (x, mask), flops_per_element=10)


def dropout_backward(rows: int, size: int, dtype: DType) -> Operation:
    """Multiplies with the mask."""
    x, mask = tensor(dtype, rows, size), tensor(DType.BOOL, rows, size)
    return elementwise("native_dropout_backward", (x, mask), (x,), flops_per_element=2)


def copy(rows: int, size: int, read: DType, write: DType | None = None) -> Operation:
    """A copy, or a cast."""
    name = "clone" if write in (None, read) else "_to_copy"
    return rows_kernel(
        Kind.COPY, name, (tensor(read, rows, size),), (tensor(write or read, rows, size),),
        flops_per_element=0,
    )  # fmt: skip


def widened(num_elements: int, element: DType) -> Operation:
    """Weights in NF4 as the products read them: four bits each and a scale of a byte for each 64 of them."""
    packed, scales = tensor(DType.UINT8, num_elements // 2), tensor(DType.UINT8, num_elements // 64)
    return elementwise(
        "dequantise_nf4", (packed, scales), (tensor(element, num_elements),), flops_per_element=2
    )


def column_sum(rows: int, size: int, dtype: DType) -> Operation:
    """Gradient of a bias."""
    return rows_kernel(
        Kind.REDUCTION, "sum", (tensor(dtype, rows, size),), (tensor(dtype, 1, size),), row=rows
    )


def lookup(rows: int, size: int, table_rows: int, dtype: DType) -> Operation:
    """Rows of a table by index."""
    table, indices, out = (
        tensor(dtype, table_rows, size),
        tensor(DType.INT64, rows),
        tensor(dtype, rows, size),
    )
    traffic = 2 * out.num_bytes + indices.num_bytes
    return rows_kernel(
        Kind.EMBEDDING, "embedding", (table, indices), (out,), flops_per_element=0, traffic_bytes=traffic
    )


def lookup_backward(rows: int, size: int, table_rows: int, dtype: DType) -> Operation:
    """The table's gradient: filled with zeros, then a row read and written for each index."""
    table, indices, out = (
        tensor(dtype, table_rows, size),
        tensor(DType.INT64, rows),
        tensor(dtype, rows, size),
    )
    traffic = table.num_bytes + indices.num_bytes + 3 * out.num_bytes
    return rows_kernel(
        Kind.EMBEDDING, "embedding_dense_backward", (out, indices), (table,), traffic_bytes=traffic
    )


@lru_cache(maxsize=65536)
def optimizer(name: str, num_elements: int, reads: tuple[DType, ...], writes: tuple[DType, ...]) -> Operation:
    """A kernel over lists of tensors, which count as one."""
    return rows_kernel(
        Kind.OPTIMIZER,
        name,
        tuple(tensor(dtype, num_elements) for dtype in reads),
        tuple(tensor(dtype, num_elements) for dtype in writes),
    )
