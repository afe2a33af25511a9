"""Attention over a sequence that is cut over context-parallel ranks: c ranks hold s / c tokens each.

* ring: keys and values travel from rank to rank, c - 1 times, while attention to those at hand is computed
  (Liu et al.: Ring Attention, 2023). Under a causal mask a rank holds the i-th and the (2c - 1 - i)-th of 2c
  pieces, so that all have as much to do: one block on the diagonal, and of each of the other c - 1 half of
  the pairs (Transformer Engine: attention/dot_product_attention/context_parallel.py). The backward sends
  keys and values around again, and their gradients behind them.
* ulysses: an all-to-all before attention gives each rank the whole sequence of its part of the heads, one
  behind it gives back (Jacobs et al.: DeepSpeed Ulysses, 2023). The backward exchanges the gradients.
* all_gather: keys and values are gathered before attention; the backward gathers them again and
  reduce-scatters their gradients (Grattafiori et al.: The Llama 3 Herd of Models, 2024, section 3.3.2).
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.core.plans.placement import group_of
from perfcast.core.work import Calls, Stream
from perfcast.errors import PlanError
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.attention import pytorch_ring
from perfcast.workload.blocks.attention.context_setting import (
    CORE,
    HEADS,
    ContextSetting,
    block_attention,
    collect_keys,
    ring_block,
    send_keys,
)
from perfcast.workload.blocks.tape import Tape


def context_attention_forward(setting: ContextSetting) -> Calls:
    """From queries, keys and values of the rank's tokens to its heads' output.

    Raises:
        PlanError: Heads that the all-to-all does not divide.
    """
    tape = Tape()
    match setting.plan.context_communication:
        case "ring" | "all_gather" if setting.program == "pytorch":
            pytorch_ring.ring_forward(tape, setting)
        case "ring":
            _ring_forward(tape, setting)
        case "ulysses":
            _ulysses(tape, setting, is_backward=False)
        case _:
            _gathered(tape, setting, is_backward=False)
    return tape.calls()


def context_attention_backward(setting: ContextSetting) -> Calls:
    """From the gradient of the output to those of queries, keys and values.

    Raises:
        PlanError: Heads that the all-to-all does not divide.
    """
    tape = Tape()
    match setting.plan.context_communication:
        case "ring" | "all_gather" if setting.program == "pytorch":
            pytorch_ring.ring_backward(tape, setting)
        case "ring":
            _ring_backward(tape, setting)
        case "ulysses":
            _ulysses(tape, setting, is_backward=True)
        case _:
            _gathered(tape, setting, is_backward=True)
    return tape.calls()


# ---- ring --------------------------------------------------------------------------------------------


def _ring_forward(tape: Tape, setting: ContextSetting) -> None:
    """Each step sends on what it has while it attends to it; outputs are joined by their row statistics."""
    for step in range(setting.parts):
        arriving = None
        if step < setting.parts - 1:
            arriving = send_keys(tape, setting, setting.key_bytes)
        tape.run(ring_block(setting, step, is_backward=False), CORE)
        if step:
            tape.run(_join_outputs(setting), CORE)
        tape.wait(arriving)


def _ring_backward(tape: Tape, setting: ContextSetting) -> None:
    """From the block that arrived last in the forward to the rank's own, so that gradients end at home."""
    for step in range(setting.parts):
        arriving = None
        if step < setting.parts - 1:
            arriving = send_keys(tape, setting, setting.key_bytes)
        tape.run(ring_block(setting, setting.parts - 1 - step, is_backward=True), CORE)
        if step:
            for operation in _add_gradients(setting):
                tape.run(operation, CORE)
        if step < setting.parts - 1:
            tape.wait(send_keys(tape, setting, setting.key_bytes, is_awaited=False))
        tape.wait(arriving)


def _join_outputs(setting: ContextSetting) -> Operation:
    """Weighs what has been summed so far, in fp32, and the new block's output, and adds them."""
    width = setting.heads.output_width
    rows = setting.batch * setting.sequence
    total, new = kernels.tensor(DType.FP32, rows, width), kernels.tensor(setting.element, rows, width)
    return kernels.elementwise("join_attention", (total, new), (total,), flops_per_element=4)


def _add_gradients(setting: ContextSetting) -> tuple[Operation, ...]:
    """Of queries, which stay, and of the keys and values that pass."""
    rows, found = setting.batch * setting.sequence, []
    heads = setting.heads
    for width in (heads.query_width, heads.key_width + heads.value_width):
        x = kernels.tensor(setting.element, rows, width)
        found.append(kernels.elementwise("add_", (x, x), (x,)))
    return tuple(found)


# ---- heads for sequence ------------------------------------------------------------------------------


def _ulysses(tape: Tape, setting: ContextSetting, *, is_backward: bool) -> None:
    """All-to-all of what goes in, attention of heads / c over the whole sequence, all-to-all back.

    The backward's way in is the output's gradient alone: queries, keys and values are kept as they were.
    """
    parts, heads = setting.parts, setting.heads
    if heads.queries % parts:
        raise PlanError(f"cp={parts} does not divide the {heads.queries} attention heads of a rank")
    heads = replace(heads, keys=max(heads.keys, parts))
    inner, outer = heads.joint_width, heads.output_width
    into, back = (outer, inner) if is_backward else (inner, outer)
    _all_to_all_heads(tape, setting, into)
    tape.run(
        block_attention(
            setting,
            replace(heads, queries=heads.queries // parts, keys=heads.keys // parts),
            setting.sequence * parts,
            setting.sequence * parts,
            setting.is_causal,
            is_backward,
        ),
        CORE,
    )
    _all_to_all_heads(tape, setting, back)


def _all_to_all_heads(tape: Tape, setting: ContextSetting, width: int) -> None:
    """Rows are laid out by rank before they go and by token when they have come."""
    rows = setting.batch * setting.sequence
    tape.run(kernels.copy(rows, width, setting.element), HEADS)
    tape.collective(
        "all_to_all", setting.element.bytes_of(rows * width), group_of(setting.plan, "context"),
        Stream.CONTEXT, HEADS, world_size=setting.plan.world_size, dtype=setting.element,
    )  # fmt: skip
    tape.run(kernels.copy(rows, width, setting.element), HEADS)


# ---- all keys and values -----------------------------------------------------------------------------


def _gathered(tape: Tape, setting: ContextSetting, *, is_backward: bool) -> None:
    """Queries of the rank against all keys. Balanced pieces see half of all pairs under a causal mask."""
    whole = setting.parts * setting.key_bytes
    collect_keys(tape, setting, "all_gather", whole)
    queries, keys = setting.sequence, setting.parts * setting.sequence
    if setting.is_causal:
        for seen in _causal_pieces(setting):
            tape.run(
                block_attention(setting, setting.heads, queries // 2, seen, False, is_backward),
                CORE,
            )
    else:
        tape.run(block_attention(setting, setting.heads, queries, keys, False, is_backward), CORE)
    if is_backward:
        collect_keys(tape, setting, "reduce_scatter", whole)


def _causal_pieces(setting: ContextSetting) -> tuple[int, int]:
    """Keys that the early and the late half of a rank's queries see, on average: (s + s / 2c) / 2 together.

    The i-th of 2c pieces of p tokens sees i·p + p / 2 keys; the one from the other end the rest of
    2c·p. The first rank's pair stands for all: p / 2 and (2c - 1)·p + p / 2.
    """
    piece = max(setting.sequence // 2, 1)
    return max(piece // 2, 1), (2 * setting.parts - 1) * piece + piece // 2
