"""Norms over the hidden size of one rank's tokens, forward and backward, as a training program runs them."""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.core.work import Stream
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.linear import input_ranks
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

NORM = "norm"


def norm_forward(tape: Tape, local: Local) -> None:
    """One kernel, or the steps of the formula; with autocast its input is wide and its output is cast."""
    rows, size = local.own_tokens, local.own_hidden
    has_bias = local.model.norm == "layernorm"
    if local.plan.tensor_parallel_inputs > 1:
        _share_statistics(tape, local)
    if has_bias or local.profile.fuses_norm:
        tape.run(kernels.norm(_norm_name(local), rows, size, local.residual, has_bias=has_bias), NORM)
    else:
        for operation in _rms_steps(rows, size, local.residual):
            tape.run(operation, NORM)
    if local.residual is not local.element:
        tape.run(kernels.copy(rows, size, local.residual, local.element), NORM)


def norm_backward(tape: Tape, local: Local) -> None:
    """Gradients of the input and of the weight."""
    rows, size = local.own_tokens, local.own_hidden
    has_bias = local.model.norm == "layernorm"
    if local.residual is not local.element:
        tape.run(kernels.copy(rows, size, local.element, local.residual), NORM)
    if local.plan.tensor_parallel_inputs > 1:
        _share_statistics(tape, local)
    if has_bias or local.profile.fuses_norm:
        tape.run(
            kernels.norm(_norm_name(local), rows, size, local.residual, is_backward=True, has_bias=has_bias),
            NORM,
        )
    else:
        for operation in _rms_backward_steps(rows, size, local.residual, trains=local.trains("norms")):
            tape.run(operation, NORM)


def _norm_name(local: Local) -> str:
    return "native_layer_norm" if local.model.norm == "layernorm" else "_fused_rms_norm"


def _rms_steps(rows: int, size: int, dtype: DType) -> tuple[Operation, ...]:
    """Cast to fp32, square, mean, product with the root's inverse, cast back, product with the weight
    (transformers: models/llama/modeling_llama.py, LlamaRMSNorm)."""
    x, wide = kernels.tensor(dtype, rows, size), kernels.tensor(DType.FP32, rows, size)
    row, weight = kernels.tensor(DType.FP32, rows, 1), kernels.tensor(dtype, size)
    casts = dtype is not DType.FP32
    return (
        *((kernels.copy(rows, size, dtype, DType.FP32),) if casts else ()),
        kernels.elementwise("pow", (wide,), (wide,), flops_per_element=2),
        kernels.rows_kernel(kernels.Kind.REDUCTION, "mean", (wide,), (row,), row=size),
        kernels.elementwise("rsqrt", (row,), (row,)),
        kernels.elementwise("mul", (wide, row), (wide,)),
        *((kernels.copy(rows, size, DType.FP32, dtype),) if casts else ()),
        kernels.elementwise("mul", (x, weight), (x,)),
    )


def _rms_backward_steps(rows: int, size: int, dtype: DType, *, trains: bool) -> tuple[Operation, ...]:
    """What autograd makes of those steps: of each product two, or one and a sum over rows."""
    x, wide = kernels.tensor(dtype, rows, size), kernels.tensor(DType.FP32, rows, size)
    row, column = kernels.tensor(DType.FP32, rows, 1), kernels.tensor(dtype, 1, size)
    casts = dtype is not DType.FP32
    once = kernels.elementwise("mul", (wide, row), (wide,))
    both = kernels.elementwise("mul", (wide, wide), (wide,))
    joined = kernels.elementwise("add", (wide, wide), (wide,))
    of_weight = (
        kernels.elementwise("mul", (x, x), (x,)),
        kernels.rows_kernel(kernels.Kind.REDUCTION, "sum", (x,), (column,), row=rows),
    )
    return (
        kernels.elementwise("mul", (x, column), (x,)),
        *(of_weight if trains else ()),
        *((kernels.copy(rows, size, dtype, DType.FP32),) if casts else ()),
        both,
        once,
        kernels.rows_kernel(kernels.Kind.REDUCTION, "sum", (wide,), (row,), row=size),
        kernels.elementwise("div", (row,), (wide,)),
        kernels.elementwise("pow", (wide,), (wide,), flops_per_element=2),
        once,
        both,
        joined,
        *((kernels.copy(rows, size, DType.FP32, dtype),) if casts else ()),
    )


def _share_statistics(tape: Tape, local: Local) -> None:
    """Two sums for each token, over the ranks that cut the hidden size."""
    tape.collective(
        "all_reduce", DType.FP32.bytes_of(2 * local.own_tokens), input_ranks(local), Stream.TENSOR, NORM,
        world_size=local.plan.world_size, dtype=DType.FP32,
    )  # fmt: skip
