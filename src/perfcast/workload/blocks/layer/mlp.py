"""The dense MLP between a norm and the residual: up (and gate), activation, down."""

from __future__ import annotations

from perfcast.core.operation import Operation
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.linear import (
    Linear,
    column_backward,
    column_forward,
    row_backward,
    row_forward,
)
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

ACTIVATION = "mlp.activation"


def up_linear(local: Local) -> Linear:
    """Up, with the gate beside it where there is one: one product, or two."""
    model, width = local.model, _width(local)
    widths: tuple[int, ...] = (2 * width,) if model.is_gated else (width,)
    if model.is_gated and not (local.profile.joins_projections or model.has_fused_gate):
        widths = (width, width)
    return Linear("mlp.up", widths, has_bias=local.has_mlp_bias)


def down_linear(local: Local) -> Linear:
    """Back to the hidden size."""
    return Linear("mlp.down", (_width(local),), has_bias=local.has_mlp_bias)


def mlp_forward(tape: Tape, local: Local) -> None:
    """From the normed input to what the residual takes."""
    column_forward(tape, local, up_linear(local))
    for operation in activation_forward(local, local.tokens, _width(local)):
        tape.run(operation, ACTIVATION)
    row_forward(tape, local, down_linear(local))


def mlp_backward(tape: Tape, local: Local) -> None:
    """Its mirror image."""
    row_backward(tape, local, down_linear(local))
    for operation in activation_backward(local, local.tokens, _width(local)):
        tape.run(operation, ACTIVATION)
    column_backward(tape, local, up_linear(local))


def activation_forward(local: Local, rows: int, width: int) -> tuple[Operation, ...]:
    """The function, and the product with what it gates: one kernel where they are fused."""
    model = local.model
    x = kernels.tensor(local.element, rows, width)
    alone = kernels.elementwise(model.activation, (x,), (x,), flops_per_element=6)
    if not model.is_gated:
        return (alone,)
    if local.profile.fuses_activation:
        return (kernels.elementwise("glu", (x, x), (x,), flops_per_element=7),)
    return (alone, kernels.elementwise("mul", (x, x), (x,)))


def activation_backward(local: Local, rows: int, width: int) -> tuple[Operation, ...]:
    """Reads what went in and the gradient."""
    model = local.model
    x = kernels.tensor(local.element, rows, width)
    name = f"{model.activation}_backward"
    alone = kernels.elementwise(name, (x, x), (x,), flops_per_element=14)
    if not model.is_gated:
        return (alone,)
    if local.profile.fuses_activation:
        return (kernels.elementwise("glu_backward", (x, x, x), (x, x), flops_per_element=16),)
    product = kernels.elementwise("mul", (x, x), (x,))
    wide = kernels.tensor(local.element, rows, 2 * width)
    joined = (
        (kernels.rows_kernel(kernels.Kind.COPY, "cat", (wide,), (wide,), flops_per_element=0),)
        if local.profile.joins_projections or model.has_fused_gate
        else ()
    )
    return (product, product, alone, *joined)


def _width(local: Local) -> int:
    return local.model.ffn_hidden_size // local.plan.tensor_parallel
