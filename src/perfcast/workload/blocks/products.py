"""Products of one rank by their sizes, with what fp8 and the accumulation of gradients add to them.

Of a linear layer with n outputs and k inputs on one rank, whatever cuts it: rows × k → rows × n, the gradient
of its input, and n × k, the gradient of its weight. ``in_fp8``: whether an fp8 training computes it in fp8.
"""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

#: Kernels that widen weights in four bits: scales, their shift, the weights.
_WIDEN_LAUNCHES = 3


def product_forward(
    tape: Tape,
    local: Local,
    rows: int,
    n: int,
    k: int,
    module: str,
    *,
    in_fp8: bool = True,
    has_bias: bool = False,
) -> None:
    """rows × k → rows × n."""
    quantise(tape, local, rows, k, module, in_fp8=in_fp8)
    multiply(tape, local, (rows, n, k), "nt", module, in_fp8=in_fp8, has_bias=has_bias)


def input_gradient(
    tape: Tape, local: Local, rows: int, n: int, k: int, module: str, *, in_fp8: bool = True
) -> None:
    """Gradient of rows × n → that of rows × k."""
    quantise(tape, local, rows, n, module, in_fp8=in_fp8)
    multiply(tape, local, (rows, k, n), "nn", module, in_fp8=in_fp8)


def weight_gradient(
    tape: Tape,
    local: Local,
    rows: int,
    n: int,
    k: int,
    module: str,
    *,
    in_fp8: bool = True,
    fuses: bool | None = None,
) -> None:
    """n × k, summed over the rows and added to what earlier micro-batches left.

    Args:
        fuses: Whether the product itself adds; by default where the program's linear layers do.
    """
    fuses = local.fuses_accumulation if fuses is None else fuses
    operation = kernels.product(
        n,
        k,
        rows,
        "tn",
        local.element,
        precision_of(local, in_fp8=in_fp8),
        out=local.gradient if fuses else local.element,
        accumulates=fuses,
        format_name=block_format(local, in_fp8=in_fp8),
    )
    tape.run(operation, module, is_weight_gradient=True)
    if not fuses:
        accumulate(tape, local, n * k, module)


def multiply(
    tape: Tape,
    local: Local,
    shape: tuple[int, int, int],
    layout: str,
    module: str,
    *,
    in_fp8: bool = True,
    has_bias: bool = False,
) -> None:
    """The product alone, of (m, n, k) in a layout of ``kernels``; weights in four bits are widened for it."""
    widen(tape, local, shape[1] * shape[2], module)
    precision = precision_of(local, in_fp8=in_fp8)
    name = block_format(local, in_fp8=in_fp8)
    operation = kernels.product(*shape, layout, local.element, precision, has_bias=has_bias, format_name=name)
    tape.run(operation, module)


def quantise(tape: Tape, local: Local, rows: int, width: int, module: str, *, in_fp8: bool = True) -> None:
    """An operand of narrow products, as it lies and, for a weight's gradient, transposed; else nothing.

    Both have their own scales where blocks do (Transformer Engine: common/cast: rowwise and columnwise).
    """
    if not (local.is_narrow and in_fp8):
        return
    rows_written = 2 * rows if local.trains_module(module) else rows
    stored = local.training.precision.products.activation
    x, narrow = (
        kernels.tensor(local.element, rows, width),
        kernels.tensor(stored.element, rows_written, width),
    )
    traffic = x.num_bytes + stored.bytes_of(rows_written * width)
    operation = kernels.rows_kernel(
        kernels.Kind.COPY, "quantise", (x,), (narrow,), flops_per_element=1, traffic_bytes=traffic
    )
    tape.run(operation, module)


def widen(tape: Tape, local: Local, num_elements: int, module: str) -> None:
    """Weights that are kept in four bits, for one product; else nothing.

    Scales first, and what they are shifted by (bitsandbytes: functional.py, dequantize_4bit).
    """
    if local.widens_module(module):
        tape.run(kernels.widened(num_elements, local.element), module, num_launches=_WIDEN_LAUNCHES)


def precision_of(local: Local, *, in_fp8: bool) -> DType:
    """Arithmetic of a product."""
    return local.precision if in_fp8 or not local.is_narrow else local.element


def block_format(local: Local, *, in_fp8: bool) -> str:
    """Name of the format of a narrow product whose blocks have scales; '' for all others."""
    is_of_blocks = local.is_narrow and local.training.precision.weight.block > 0
    return local.training.dtype if is_of_blocks and in_fp8 else ""


def accumulate(tape: Tape, local: Local, num_elements: int, module: str) -> None:
    """A gradient joins those of earlier micro-batches in a kernel of its own, where the program has one.

    Autocast casts it to the weight's type first.
    """
    profile = local.profile
    mine = kernels.tensor(local.element, num_elements)
    summed = kernels.tensor(local.gradient, num_elements)
    if profile.casts_weights and local.element is not local.gradient:
        cast = kernels.rows_kernel(kernels.Kind.COPY, "_to_copy", (mine,), (summed,), flops_per_element=0)
        tape.run(cast, module, is_weight_gradient=True)
        mine = summed
    joins = local.plan.num_micro_batches > 1 and not profile.shards_gradients
    if profile.has_gradient_buffer or joins:
        add_to = kernels.elementwise("add_", (summed, mine), (summed,))
        tape.run(add_to, module, is_weight_gradient=True)
