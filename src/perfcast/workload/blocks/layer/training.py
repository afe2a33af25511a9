"""A layer between two points of the residual stream, forward and backward: one micro-batch of one rank."""

from __future__ import annotations

from functools import lru_cache

from perfcast.core.dtype import DType
from perfcast.core.model.layer import LayerPart, layer_parts
from perfcast.core.tensor import TensorType
from perfcast.core.work import Calls
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.attention.latent import (
    latent_attention_backward,
    latent_attention_forward,
)
from perfcast.workload.blocks.attention.standard import attention_backward, attention_forward
from perfcast.workload.blocks.experts.training import experts_backward, experts_forward
from perfcast.workload.blocks.layer.mlp import mlp_backward, mlp_forward
from perfcast.workload.blocks.layer.norm import norm_backward, norm_forward
from perfcast.workload.blocks.layer.recomputed import computed_again
from perfcast.workload.blocks.linear import add
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

RESIDUAL = "residual"


@lru_cache(maxsize=1024)
def layer_forward(local: Local, has_experts: bool) -> Calls:
    """The calls of a layer's forward."""
    tape = Tape()
    record_forward(tape, local, has_experts=has_experts)
    return tape.calls()


@lru_cache(maxsize=1024)
def layer_backward(local: Local, has_experts: bool) -> Calls:
    """The calls of a layer's backward; what is recomputed stands in front."""
    tape = Tape(local.trains_module)
    again = computed_again(local, layer_forward(local, has_experts))
    if again:
        with tape.recomputing():
            tape.add(again)
    record_backward(tape, local, has_experts=has_experts)
    return tape.calls()


def record_forward(tape: Tape, local: Local, *, has_experts: bool) -> None:
    """The parts of the layer in the order that the model puts them."""
    for part in layer_parts(local.model):
        match part:
            case LayerPart.ATTENTION:
                _attention(tape, local, is_backward=False)
            case LayerPart.MLP:
                _mlp(tape, local, has_experts=has_experts, is_backward=False)
            case LayerPart.JOIN:
                add(tape, local.own_tokens, local.own_hidden, local.residual, RESIDUAL)
            case LayerPart.ADD:
                _sum_forward(tape, local)
            case _ if part.is_norm:
                norm_forward(tape, local)


def record_backward(tape: Tape, local: Local, *, has_experts: bool) -> None:
    """The mirror image; where a branch was taken, two gradients are added."""
    for part in reversed(layer_parts(local.model)):
        match part:
            case LayerPart.ATTENTION:
                _attention(tape, local, is_backward=True)
            case LayerPart.MLP:
                _mlp(tape, local, has_experts=has_experts, is_backward=True)
            case LayerPart.BRANCH:
                add(tape, local.own_tokens, local.own_hidden, local.residual, RESIDUAL)
            case LayerPart.ADD:
                _sum_backward(tape, local)
            case _ if part.is_norm:
                norm_backward(tape, local)


# ---- the residual stream ------------------------------------------------------------------------------


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
