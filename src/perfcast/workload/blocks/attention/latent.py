"""Multi-head latent attention, forward and backward (DeepSeek-AI: DeepSeek-V2, 2024, section 2.1).

Queries, and keys with values, go through a narrow vector with a norm; what rotates is kept apart. With t
tokens of a rank, ranks r_q and r_kv, heads of n + r elements (n without rotation) and values of v::

    t × hidden → r_q → norm → heads · (n + r)            queries
    t × hidden → r_kv + r → norm of r_kv → heads · (n + v)    keys without rotation, values
    attention with heads of n + r and values of v → heads · v → t × hidden

The down-projections are whole on every rank, the up-projections and the output cut by heads. With sequence
parallelism the compressed vectors, not the hidden ones, are gathered (Megatron-LM:
core/transformer/multi_latent_attention.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.model.transformer import LatentAttention
from perfcast.core.operation import Operation
from perfcast.core.work import Stream
from perfcast.errors import ModelError, PlanError
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.adapters import adapters_backward, adapters_forward
from perfcast.workload.blocks.attention.standard import core_backward, core_forward
from perfcast.workload.blocks.linear import Linear, add, row_backward, row_forward
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.products import input_gradient, product_forward, weight_gradient
from perfcast.workload.blocks.tape import Tape


@dataclass(frozen=True, slots=True)
class _Path:
    """From the hidden vector through a narrow one to the heads.

    Attributes:
        rank: Elements that are normed and projected up; 0: projected from the hidden vector at once.
        beside: Elements that the down-projection makes besides: the rotated part of the key.
        width: Elements of all heads of the rank.
    """

    module: str
    rank: int
    beside: int
    width: int


def latent_attention_forward(tape: Tape, local: Local) -> None:
    """From the normed input to what the residual takes."""
    latent = _latent(local)
    for path in _paths(local, latent):
        _path_forward(tape, local, path)
    _rotate(tape, local, latent)
    _assemble(tape, local, latent)
    core_forward(tape, local)
    row_forward(tape, local, _output(local, latent))


def latent_attention_backward(tape: Tape, local: Local) -> None:
    """Its mirror image; the gradients of both paths are added."""
    latent = _latent(local)
    row_backward(tape, local, _output(local, latent))
    core_backward(tape, local)
    _assemble(tape, local, latent)
    _rotate(tape, local, latent)
    for path in reversed(_paths(local, latent)):
        _path_backward(tape, local, path)
    add(tape, local.own_tokens, local.hidden, local.element, "attention.input")


def _latent(local: Local) -> LatentAttention:
    latent = local.model.latent_attention
    if latent is None:
        raise ModelError("latent attention in a model without it")
    if local.plan.tensor_parallel_inputs > 1:
        raise PlanError(
            f"tp_inputs={local.plan.tensor_parallel_inputs} with latent attention: its down-projections are "
            "whole on every rank; take tp_inputs=1"
        )
    return latent


def _paths(local: Local, latent: LatentAttention) -> tuple[_Path, _Path]:
    return (
        _Path(
            "attention.queries", latent.query_rank or 0, 0,
            local.heads.query_width,
        ),
        _Path(
            "attention.keys_values", latent.kv_rank, latent.rope_head_size,
            local.heads.queries * (latent.nope_head_size + latent.value_head_size),
        ),
    )  # fmt: skip


def _output(local: Local, latent: LatentAttention) -> Linear:
    return Linear("attention.output", (local.heads.output_width,))


# ---- projections -------------------------------------------------------------------------------------


def _path_forward(tape: Tape, local: Local, path: _Path) -> None:
    """Down, norm, up; without a narrow vector the hidden one is gathered instead."""
    depth = path.rank or local.hidden
    if path.rank:
        product_forward(tape, local, local.own_tokens, path.rank + path.beside, local.hidden, path.module)
        tape.run(_norm(local, path, is_backward=False), path.module)
    if local.plan.sequence_parallel:
        _over_tensor(tape, local, "all_gather", depth + path.beside, path.module)
    product_forward(tape, local, local.tokens, path.width, depth, path.module)
    adapters_forward(tape, local, path.module)


def _path_backward(tape: Tape, local: Local, path: _Path) -> None:
    """Up, norm, down. Partial gradients of the narrow vector are summed over the ranks' heads."""
    depth, overlaps = path.rank or local.hidden, local.profile.overlaps_input_gradient
    trains = local.trains_module(path.module)
    if local.plan.sequence_parallel and local.profile.gathers_again and trains:
        _over_tensor(tape, local, "all_gather", depth, path.module)
    input_gradient(tape, local, local.tokens, path.width, depth, path.module)
    reduction = "reduce_scatter" if local.plan.sequence_parallel else "all_reduce"
    reduced = _over_tensor(tape, local, reduction, depth + path.beside, path.module, is_awaited=not overlaps)
    weight_gradient(tape, local, local.tokens, path.width, depth, path.module)
    tape.wait(reduced)
    if path.rank:
        narrow = path.rank + path.beside
        tape.run(_norm(local, path, is_backward=True), path.module)
        input_gradient(tape, local, local.own_tokens, narrow, local.hidden, path.module)
        weight_gradient(tape, local, local.own_tokens, narrow, local.hidden, path.module)
    adapters_backward(tape, local, path.module)


def _norm(local: Local, path: _Path, *, is_backward: bool) -> Operation:
    return kernels.norm(
        "_fused_rms_norm", local.own_tokens, path.rank, local.element, is_backward=is_backward
    )


def _over_tensor(
    tape: Tape, local: Local, collective: str, width: int, module: str, *, is_awaited: bool = True
) -> int | None:
    return tape.collective(
        collective, local.element.bytes_of(local.tokens * width), local.tensor_ranks, Stream.TENSOR, module,
        world_size=local.plan.world_size, dtype=local.element, is_awaited=is_awaited,
    )  # fmt: skip


# ---- heads -------------------------------------------------------------------------------------------


def _rotate(tape: Tape, local: Local, latent: LatentAttention) -> None:
    """The rotated part of each query, and of the one key that all heads share."""
    for heads in (local.heads.queries, 1):
        x = kernels.tensor(local.element, local.tokens, heads * latent.rope_head_size)
        tape.run(kernels.elementwise("rope", (x,), (x,), flops_per_element=6), "attention.rope")


def _assemble(tape: Tape, local: Local, latent: LatentAttention) -> None:
    """Keys of both parts side by side, values apart; the backward takes them apart again."""
    nope, value = latent.nope_head_size, latent.value_head_size
    both = kernels.tensor(local.element, local.tokens, local.heads.queries * (nope + value))
    whole = local.heads.key_width + local.heads.value_width
    operation = kernels.rows_kernel(
        kernels.Kind.COPY, "cat", (both,), (kernels.tensor(local.element, local.tokens, whole),),
        flops_per_element=0,
    )  # fmt: skip
    tape.run(operation, "attention.keys_values")
