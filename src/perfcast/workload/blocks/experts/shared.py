"""Shared experts: an MLP that every token visits beside those that the router chooses for it.

They are cut over the tensor-parallel ranks like any MLP (DeepSeek-AI: DeepSeekMoE, 2024, section 3.2;
Megatron-LM: core/transformer/moe/shared_experts.py).
"""

from __future__ import annotations

from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.experts.routing import experts_of
from perfcast.workload.blocks.layer.mlp import activation_backward, activation_forward
from perfcast.workload.blocks.linear import (
    Linear,
    column_backward,
    column_forward,
    row_backward,
    row_forward,
)
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

_GATE = "shared.gate"


def shared_forward(tape: Tape, local: Local) -> None:
    """From the normed input to what is added to the other experts' sum."""
    column_forward(tape, local, _up(local))
    for operation in activation_forward(local, local.tokens, shared_width(local)):
        tape.run(operation, "shared.activation")
    row_forward(tape, local, _down(local))
    if experts_of(local.model).has_shared_gate:
        _gate_forward(tape, local)


def shared_backward(tape: Tape, local: Local) -> None:
    """Its mirror image."""
    if experts_of(local.model).has_shared_gate:
        _gate_backward(tape, local)
    row_backward(tape, local, _down(local))
    for operation in activation_backward(local, local.tokens, shared_width(local)):
        tape.run(operation, "shared.activation")
    column_backward(tape, local, _up(local))


def shared_width(local: Local) -> int:
    """Of the shared experts' MLP on this rank."""
    return experts_of(local.model).shared_ffn_hidden_size // local.plan.tensor_parallel


def _up(local: Local) -> Linear:
    width = shared_width(local)
    widths: tuple[int, ...] = (2 * width,) if local.model.is_gated else (width,)
    if local.model.is_gated and not local.profile.joins_projections:
        widths = (width, width)
    return Linear("shared.up", widths)


def _down(local: Local) -> Linear:
    return Linear("shared.down", (shared_width(local),))


def _gate_forward(tape: Tape, local: Local) -> None:
    """A product with one output, its sigmoid, and that times every element (Qwen2-MoE)."""
    rows, hidden, element = local.own_tokens, local.hidden, local.element
    whole, gate = kernels.tensor(element, rows, hidden), kernels.tensor(element, rows, 1)
    tape.run(kernels.product(rows, 1, hidden, "nt", element, element), _GATE)
    tape.run(kernels.elementwise("sigmoid", (gate,), (gate,), flops_per_element=3), _GATE)
    tape.run(kernels.elementwise("mul", (whole, gate), (whole,)), _GATE)


def _gate_backward(tape: Tape, local: Local) -> None:
    """Gradients of both factors, of the sigmoid, of the product."""
    rows, hidden, element = local.own_tokens, local.hidden, local.element
    whole, gate = kernels.tensor(element, rows, hidden), kernels.tensor(element, rows, 1)
    tape.run(kernels.elementwise("mul", (whole, gate), (whole,)), _GATE)
    tape.run(kernels.elementwise("mul", (whole, whole), (whole,)), _GATE)
    tape.run(kernels.rows_kernel(kernels.Kind.REDUCTION, "sum", (whole,), (gate,), row=hidden), _GATE)
    tape.run(kernels.elementwise("sigmoid_backward", (gate, gate), (gate,), flops_per_element=3), _GATE)
    tape.run(kernels.product(rows, hidden, 1, "nn", element, element), _GATE)
    tape.run(kernels.product(1, hidden, rows, "tn", element, element), _GATE, is_weight_gradient=True)
    tape.run(kernels.elementwise("add", (whole, whole), (whole,)), _GATE)
