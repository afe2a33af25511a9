"""Parts that layers, experts and ends of an inference share."""

from __future__ import annotations

from perfcast.core.plans.placement import group_of
from perfcast.core.work import Stream
from perfcast.workload.blocks.kernels import elementwise, tensor
from perfcast.workload.blocks.serving.kernels import formatted_product, fused_norm
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.tape import Tape


def add_norm(tape: Tape, setting: Serving, module: str, *, quantises: bool = False) -> None:
    """The sum with the residual and its norm; ``quantises``: a layer's product reads what it gives.

    Behind an all-reduce that does it along, nothing.
    """
    if setting.fuses_all_reduce:
        return
    model, element = setting.model, setting.precision.element
    out = setting.fused_operand(module) if quantises else None
    for operation in fused_norm(model.norm, setting.tokens, model.hidden_size, element, adds=True, out=out):
        tape.run(operation, module)


def linear(tape: Tape, setting: Serving, m: int, n: int, k: int, module: str) -> None:
    """A product in the module's format, its operand quantised in the same call or by the kernel before."""
    operation = formatted_product(
        m, n, k, setting.format_of(module), is_quantised=setting.fused_operand(module) is not None,
        element=setting.precision.element,
    )  # fmt: skip
    tape.run(operation, module)


def mlp(tape: Tape, setting: Serving, width: int, *, rows: int | None = None, module: str = "mlp") -> None:
    """Gate and up in one product, the activation, down."""
    model, element = setting.model, setting.precision.element
    tokens = setting.tokens if rows is None else rows
    up = (2 if model.is_gated else 1) * width
    linear(tape, setting, tokens, up, model.hidden_size, f"{module}.up")
    name = f"{model.activation}_mul" if model.is_gated else model.activation
    inputs, outputs = (
        (tensor(element, tokens, up),),
        (tensor(setting.fused_operand(module) or element, tokens, width),),
    )
    tape.run(elementwise(name, inputs, outputs, flops_per_element=6), f"{module}.activation")
    linear(tape, setting, tokens, model.hidden_size, width, f"{module}.down")


def reduce_over_tensor(tape: Tape, setting: Serving, module: str) -> None:
    """Partial sums of the tensor-parallel ranks."""
    element = setting.precision.element
    tape.collective(
        "all_reduce", element.bytes_of(setting.tokens * setting.model.hidden_size),
        group_of(setting.plan, "tensor"), Stream.TENSOR, module,
        world_size=setting.plan.world_size, dtype=element, reads_peers=setting.profile.reads_peers,
    )  # fmt: skip


def linear_outside(tape: Tape, setting: Serving, m: int, n: int, k: int, module: str) -> None:
    """A product that is not quantised."""
    tape.run(formatted_product(m, n, k, setting.precision.outside), module)
