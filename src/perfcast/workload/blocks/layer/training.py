"""A layer between two points of the residual stream, forward and backward: one micro-batch of one rank."""

from __future__ import annotations

from functools import lru_cache

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.core.tensor import TensorType
from perfcast.core.work import Calls, Stream
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.attention.latent import (
    latent_attention_backward,
    latent_attention_forward,
)
from perfcast.workload.blocks.attention.standard import attention_backward, attention_forward
from perfcast.workload.blocks.experts.training import experts_backward, experts_forward
from perfcast.workload.blocks.layer.mlp import mlp_backward, mlp_forward
from perfcast.workload.blocks.linear import add, input_ranks
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

NORM, RESIDUAL = "norm", "residual"


@lru_cache(maxsize=1024)
def layer_forward(local: Local, has_experts: bool) -> Calls:
    """The calls of a layer's forward."""
    tape = Tape()
    record_forward(tape, local, has_experts=has_experts)
    return tape.calls()


@lru_cache(maxsize=1024)
def layer_backward(local: Local, has_experts: bool) -> Calls:
    """The calls of a layer's backward; what is recomputed stands in front."""
    tape = Tape()
    if local.plan.recompute == "full":
        with tape.recomputing():
            tape.add(_recomputed(local, layer_forward(local, has_experts)))
    record_backward(tape, local, has_experts=has_experts)
    return tape.calls()


def record_forward(tape: Tape, local: Local, *, has_experts: bool) -> None:
    """Norm, attention, sum; norm, MLP, sum: in the order that the model puts them."""
    placement = local.model.norm_placement
    is_parallel = placement in ("shared", "parallel")
    if placement != "after":
        norm_forward(tape, local)
    _attention(tape, local, is_backward=False)
    if placement == "both":
        norm_forward(tape, local)
    if not is_parallel:
        _sum_forward(tape, local)
        norm_forward(tape, local)
    elif placement == "parallel":
        norm_forward(tape, local)
    _mlp(tape, local, has_experts=has_experts, is_backward=False)
    if placement == "both":
        norm_forward(tape, local)
    if is_parallel:
        add(tape, local.own_tokens, local.own_hidden, local.residual, RESIDUAL)
    _sum_forward(tape, local)
    if placement == "after":
        norm_forward(tape, local)


def record_backward(tape: Tape, local: Local, *, has_experts: bool) -> None:
    """The mirror image; where a branch meets the residual stream, two gradients are added."""
    placement = local.model.norm_placement
    is_parallel = placement in ("shared", "parallel")
    if placement in ("after", "both"):
        norm_backward(tape, local)
    _sum_backward(tape, local)
    _mlp(tape, local, has_experts=has_experts, is_backward=True)
    if is_parallel:
        if placement == "parallel":
            norm_backward(tape, local)
        add(tape, local.own_tokens, local.own_hidden, local.residual, RESIDUAL)
    else:
        if placement != "after":
            norm_backward(tape, local)
        add(tape, local.own_tokens, local.own_hidden, local.residual, RESIDUAL)
        if placement in ("after", "both"):
            norm_backward(tape, local)
        _sum_backward(tape, local)
    _attention(tape, local, is_backward=True)
    if placement != "after":
        norm_backward(tape, local)
    add(tape, local.own_tokens, local.own_hidden, local.residual, RESIDUAL)


# ---- norms and the residual stream ---------------------------------------------------------------------


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
        for operation in _rms_backward_steps(rows, size, local.residual):
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


def _rms_backward_steps(rows: int, size: int, dtype: DType) -> tuple[Operation, ...]:
    """What autograd makes of those steps: of each product two, or one and a sum over rows."""
    x, wide = kernels.tensor(dtype, rows, size), kernels.tensor(DType.FP32, rows, size)
    row, column = kernels.tensor(DType.FP32, rows, 1), kernels.tensor(dtype, 1, size)
    casts = dtype is not DType.FP32
    once = kernels.elementwise("mul", (wide, row), (wide,))
    both = kernels.elementwise("mul", (wide, wide), (wide,))
    joined = kernels.elementwise("add", (wide, wide), (wide,))
    return (
        kernels.elementwise("mul", (x, column), (x,)),
        kernels.elementwise("mul", (x, x), (x,)),
        kernels.rows_kernel(kernels.Kind.REDUCTION, "sum", (x,), (column,), row=rows),
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


def _sum_forward(tape: Tape, local: Local) -> None:
    """Bias, dropout and the sum with the residual."""
    rows, size, model = local.own_tokens, local.own_hidden, local.model
    branch, residual = _pair(local)
    if not local.profile.fuses_residual:
        if model.has_dropout:
            tape.run(kernels.dropout(rows, size, local.element), RESIDUAL)
        tape.run(kernels.elementwise("add", (branch, residual), (residual,)), RESIDUAL)
        return
    mask = (kernels.tensor(DType.BOOL, rows, size),) if model.has_dropout else ()
    bias = (kernels.tensor(local.element, size),) if model.has_linear_bias else ()
    reads, writes = (branch, residual, *bias), (residual, *mask)
    if model.has_dropout:
        name, kind, flops = "bias_dropout_add", kernels.Kind.RANDOM, 10
    else:
        name, kind, flops = "add", kernels.Kind.ELEMENTWISE, 2
    tape.run(kernels.rows_kernel(kind, name, reads, writes, flops_per_element=flops), RESIDUAL)


def _sum_backward(tape: Tape, local: Local) -> None:
    """The branch's gradient is the residual's, but for dropout and autocast."""
    rows, size = local.own_tokens, local.own_hidden
    if local.residual is not local.element:
        tape.run(kernels.copy(rows, size, local.residual, local.element), RESIDUAL)
    if local.model.has_dropout:
        tape.run(kernels.dropout_backward(rows, size, local.element), RESIDUAL)


def _pair(local: Local) -> tuple[TensorType, TensorType]:
    rows, size = local.own_tokens, local.own_hidden
    return kernels.tensor(local.element, rows, size), kernels.tensor(local.residual, rows, size)


# ---- parts -----------------------------------------------------------------------------------------------


def _attention(tape: Tape, local: Local, *, is_backward: bool) -> None:
    if local.model.latent_attention is not None:
        (latent_attention_backward if is_backward else latent_attention_forward)(tape, local)
    else:
        (attention_backward if is_backward else attention_forward)(tape, local)


def _mlp(tape: Tape, local: Local, *, has_experts: bool, is_backward: bool) -> None:
    if has_experts:
        (experts_backward if is_backward else experts_forward)(tape, local)
    else:
        (mlp_backward if is_backward else mlp_forward)(tape, local)


def _recomputed(local: Local, forward: Calls) -> Calls:
    """The whole forward; where recomputing ends with the last kept tensor, not its last product.

    What the last product reads is the last that the backward needs, unless dropout follows, whose mask is
    kept (PyTorch: utils/checkpoint.py, early stop).
    """
    if not local.profile.stops_recompute_early or local.model.has_dropout:
        return forward
    last = max((at for at, call in enumerate(forward) if call.operation.uses_matrix_units), default=-1)
    return forward if last < 0 else forward[:last]
