"""Kernels of a mixture of experts as operations: grouped products, and rows on their way."""

from __future__ import annotations

from functools import lru_cache

from perfcast.core.dtype import DType
from perfcast.core.operation import AttributeValue, Operation
from perfcast.core.tensor import TensorType
from perfcast.workload.blocks.kernels import Kind, rows_kernel, scale_bytes, tensor


@lru_cache(maxsize=4096)
def grouped_product(
    groups: int,
    rows: int,
    n: int,
    k: int,
    layout: str,
    element: DType,
    precision: DType,
    format_name: str = "",
) -> Operation:
    """C[rows, n] = A[rows, k] · B[g, k, n], each row with the matrix of its expert; 2·rows·n·k flops.

    With fewer rows than experts, only as many matrices as rows are read.
    """
    stored = precision if precision.bits <= element.bits // 2 else element
    strides = (k * n, 1, k) if layout[1] == "t" else (k * n, n, 1)
    a, b = TensorType((rows, k), stored, (k, 1)), TensorType((groups, k, n), stored, strides)
    c = tensor(element, rows, n)
    traffic = a.num_bytes + b.num_bytes * min(groups, rows) // groups + c.num_bytes
    return _grouped((a, b), c, (groups, rows, n, k), layout, precision, traffic, format_name)


@lru_cache(maxsize=4096)
def grouped_weight_gradient(
    groups: int,
    rows: int,
    n: int,
    k: int,
    element: DType,
    precision: DType,
    *,
    out: DType,
    accumulates: bool,
    format_name: str = "",
) -> Operation:
    """W[g, n, k] = Y[rows, n]ᵀ · X[rows, k], the rows of each expert apart; 2·rows·n·k flops."""
    stored = precision if precision.bits <= element.bits // 2 else element
    a, b = TensorType((n, rows), stored, (1, n)), TensorType((rows, k), stored, (k, 1))
    c = tensor(out, groups, n, k)
    traffic = a.num_bytes + b.num_bytes + c.num_bytes * (2 if accumulates else 1)
    return _grouped((a, b), c, (groups, n, k, rows), "tn", precision, traffic, format_name)


def _grouped(
    inputs: tuple[TensorType, TensorType],
    output: TensorType,
    sizes: tuple[int, int, int, int],
    layout: str,
    precision: DType,
    traffic_bytes: int,
    format_name: str,
) -> Operation:
    """``sizes``: groups, m, n, k; attributes as a captured grouped product has them."""
    groups, m, n, k = sizes
    flops = 2 * m * n * k
    sizes_by_name: dict[str, AttributeValue] = {"groups": groups, "k": k, "layout": layout, "m": m, "n": n}
    if format_name:
        sizes_by_name["format"] = format_name
        traffic_bytes += scale_bytes(format_name, m * k, groups * k * n)
    return Operation(
        Kind.GROUPED_MATMUL, "_grouped_mm", inputs, (output,), precision, flops, flops, traffic_bytes, 0,
        tuple(sorted(sizes_by_name.items())),
    )  # fmt: skip


def moved_rows(name: str, read_rows: int, written_rows: int, width: int, element: DType) -> Operation:
    """Rows copied to other places, repeated or summed on the way (Megatron-LM: moe_utils.py, permute)."""
    read, written = tensor(element, read_rows, width), tensor(element, written_rows, width)
    return rows_kernel(Kind.COPY, name, (read,), (written,), flops_per_element=0)
