"""Products of one rank by their sizes, with what fp8 and the accumulation of gradients add to them."""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.linear import accumulate
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape


def product_forward(tape: Tape, local: Local, rows: int, n: int, k: int, module: str) -> None:
    """rows × k → rows × n."""
    quantise(tape, local, rows, k, module)
    tape.run(kernels.product(rows, n, k, "nt", local.element, local.precision), module)


def input_gradient(tape: Tape, local: Local, rows: int, n: int, k: int, module: str) -> None:
    """Gradient of rows × n → that of rows × k."""
    quantise(tape, local, rows, n, module)
    tape.run(kernels.product(rows, k, n, "nn", local.element, local.precision), module)


def weight_gradient(
    tape: Tape, local: Local, rows: int, n: int, k: int, module: str, precision: DType | None = None
) -> None:
    """n × k, summed over the rows and added to what earlier micro-batches left."""
    fuses = local.fuses_accumulation
    operation = kernels.product(
        n, k, rows, "tn", local.element, precision or local.precision, out=gradient_type(local),
        accumulates=fuses,
    )  # fmt: skip
    tape.run(operation, module, is_weight_gradient=True)
    if not fuses:
        accumulate(tape, local, n * k, module)


def gradient_type(local: Local) -> DType:
    """Type in which a product leaves a weight's gradient."""
    return DType.FP32 if local.fuses_accumulation else local.element


def quantise(tape: Tape, local: Local, rows: int, width: int, module: str) -> None:
    """An operand of fp8 products, as it lies and transposed; nothing in other formats."""
    if local.precision is not DType.FP8:
        return
    x, narrow = kernels.tensor(local.element, rows, width), kernels.tensor(DType.FP8, 2 * rows, width)
    operation = kernels.rows_kernel(kernels.Kind.COPY, "quantise", (x,), (narrow,), flops_per_element=1)
    tape.run(operation, module)
