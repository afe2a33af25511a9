"""Attention between a norm and the residual: projections, rotation, the core, and their backward.

The core on one rank with b sequences of s tokens and a heads of size d: fused ('flash'), one kernel; else
('math') two batched products of 2·b·a·s²·d flops around a softmax over b·a·s rows of s.
"""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.frameworks.choice import recomputed_modules
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.attention.context_parallel import (
    context_attention_backward,
    context_attention_forward,
)
from perfcast.workload.blocks.attention.context_setting import ContextSetting
from perfcast.workload.blocks.linear import (
    Linear,
    column_backward,
    column_forward,
    row_backward,
    row_forward,
)
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

CORE = "attention.core"


def qkv_linear(local: Local) -> Linear:
    """Queries, keys and values: one product, or three."""
    model, heads = local.model, local.heads
    widths: tuple[int, ...] = (heads.joint_width,)
    if not (local.profile.joins_projections or model.has_fused_qkv):
        widths = (heads.query_width, heads.key_width, heads.value_width)
    return Linear("attention.qkv", widths, has_bias=model.has_qkv_bias)


def output_linear(local: Local) -> Linear:
    """From the heads back to the hidden size."""
    return Linear("attention.output", (local.heads.output_width,), has_bias=local.model.has_linear_bias)


def attention_forward(tape: Tape, local: Local) -> None:
    """From the normed input to what the residual takes."""
    column_forward(tape, local, qkv_linear(local))
    _copy_heads(tape, local)
    _head_norms(tape, local, is_backward=False)
    _rotate(tape, local)
    core_forward(tape, local)
    row_forward(tape, local, output_linear(local))


def attention_backward(tape: Tape, local: Local) -> None:
    """Its mirror image; gradients of queries, keys and values are joined for one product."""
    row_backward(tape, local, output_linear(local))
    core_backward(tape, local)
    _rotate(tape, local)
    _head_norms(tape, local, is_backward=True)
    linear = qkv_linear(local)
    if len(linear.widths) == 1:
        tape.run(kernels.copy(local.tokens, local.heads.joint_width, local.element), linear.module)
    _copy_heads(tape, local)
    column_backward(tape, local, linear)


# ---- the core ----------------------------------------------------------------------------------------


def core_forward(tape: Tape, local: Local) -> None:
    """From queries, keys and values of this rank's tokens to its heads' output."""
    if local.plan.context_parallel > 1:
        tape.add(context_attention_forward(_context(local)))
    elif local.is_fused_attention:
        tape.run(_fused(local, is_backward=False), CORE)
    else:
        _scores_forward(tape, local)


def core_backward(tape: Tape, local: Local) -> None:
    """From the gradient of the heads' output to those of queries, keys and values.

    Selective recomputation of the core runs the forward again first (Korthikanti et al.: 2022, section 5).
    """
    if "core_attn" in recomputed_modules(local.framework, local.plan):
        with tape.recomputing():
            core_forward(tape, local)
    if local.plan.context_parallel > 1:
        tape.add(context_attention_backward(_context(local)))
    elif local.is_fused_attention:
        tape.run(_fused(local, is_backward=True), CORE)
    else:
        _scores_backward(tape, local)


def _context(local: Local) -> ContextSetting:
    return ContextSetting(
        plan=local.plan,
        batch=local.plan.micro_batch_size,
        sequence=local.sequence,
        heads=local.heads,
        element=local.element,
        is_causal=local.model.is_causal,
        window=local.window,
        program=local.profile.context_program,
    )


def _fused(local: Local, *, is_backward: bool) -> Operation:
    """One kernel; a window shorter than the sequence leaves its keys to each query."""
    heads, sequence = local.heads, local.sequence
    is_windowed = 0 < local.window < sequence
    return kernels.attention(
        local.plan.micro_batch_size, heads.queries, heads.keys, sequence,
        local.window if is_windowed else sequence, heads.size, local.element,
        causal=local.model.is_causal and not is_windowed, is_backward=is_backward,
        value_head_size=heads.value_size,
    )  # fmt: skip


def _scores_forward(tape: Tape, local: Local) -> None:
    _repeat_keys(tape, local)
    heads = local.heads
    _batched(tape, local, heads.size, scores=True, layout="nt")
    _softmax_forward(tape, local)
    if local.model.has_attention_dropout:
        tape.run(kernels.dropout(*_score_shape(local), local.element), CORE)
    _batched(tape, local, heads.value_size, scores=False, layout="nn")
    tape.run(kernels.copy(local.tokens, heads.output_width, local.element), CORE)


def _scores_backward(tape: Tape, local: Local) -> None:
    heads = local.heads
    tape.run(kernels.copy(local.tokens, heads.output_width, local.element), CORE)
    _batched(tape, local, heads.value_size, scores=True, layout="nt")
    _batched(tape, local, heads.value_size, scores=False, layout="tn")
    if local.model.has_attention_dropout:
        tape.run(kernels.dropout_backward(*_score_shape(local), local.element), CORE)
    _softmax_backward(tape, local)
    _batched(tape, local, heads.size, scores=False, layout="nn")
    _batched(tape, local, heads.size, scores=False, layout="tn")


def _score_shape(local: Local) -> tuple[int, int]:
    return local.plan.micro_batch_size * local.heads.queries * local.sequence, local.sequence


def _batched(tape: Tape, local: Local, size: int, *, scores: bool, layout: str) -> None:
    """s × s from heads of a size, or s × size from scores."""
    batch, s = local.plan.micro_batch_size * local.heads.queries, local.sequence
    n, k = (s, size) if scores else (size, s)
    precision = local.element if local.is_narrow else local.precision
    tape.run(kernels.batched_product(batch, s, n, k, layout, local.element, precision), CORE)


def _fuses_scores(local: Local) -> bool:
    """Whether one kernel scales, masks and takes the softmax: it treats four matrices of scores at a time.

    Megatron-LM: model/fused_softmax.py, FusedScaleMaskSoftmax.is_kernel_available.
    """
    num_matrices = local.plan.micro_batch_size * local.heads.queries
    return local.profile.fuses_scores and num_matrices % 4 == 0 and local.sequence % 4 == 0


def _softmax_forward(tape: Tape, local: Local) -> None:
    """Scale, mask and softmax: one kernel, or one each, in fp32 between casts."""
    rows, size = _score_shape(local)
    if _fuses_scores(local):
        tape.run(kernels.softmax(rows, size, local.element, local.element), CORE)
        return
    for name in ("mul", "add") if local.model.is_causal else ("mul",):
        tape.run(_over(name, rows, size, local.element), CORE)
    if local.element is not DType.FP32:
        tape.run(kernels.copy(rows, size, local.element, DType.FP32), CORE)
    tape.run(kernels.softmax(rows, size, DType.FP32, DType.FP32), CORE)
    if local.element is not DType.FP32:
        tape.run(kernels.copy(rows, size, DType.FP32, local.element), CORE)


def _softmax_backward(tape: Tape, local: Local) -> None:
    rows, size = _score_shape(local)
    if _fuses_scores(local):
        tape.run(kernels.softmax(rows, size, local.element, local.element, is_backward=True), CORE)
        return
    if local.element is not DType.FP32:
        tape.run(kernels.copy(rows, size, local.element, DType.FP32), CORE)
    scores = kernels.tensor(DType.FP32, rows, size)  # first times the probabilities, a kernel of its own
    tape.run(kernels.elementwise("mul", (scores, scores), (scores,)), CORE)
    tape.run(kernels.softmax(rows, size, DType.FP32, DType.FP32, is_backward=True), CORE)
    if local.element is not DType.FP32:
        tape.run(kernels.copy(rows, size, DType.FP32, local.element), CORE)
    tape.run(_over("mul", rows, size, local.element), CORE)


def _repeat_keys(tape: Tape, local: Local) -> None:
    """Batched products want as many key heads as query heads."""
    heads = local.heads
    if heads.keys == heads.queries:
        return
    size = heads.size + heads.value_size
    read = kernels.tensor(local.element, local.tokens, heads.keys * size)
    written = kernels.tensor(local.element, local.tokens, heads.queries * size)
    tape.run(
        kernels.rows_kernel(kernels.Kind.COPY, "repeat_interleave", (read,), (written,), flops_per_element=0),
        CORE,
    )


# ---- what stands between the projections and the core ------------------------------------------------------


def _copy_heads(tape: Tape, local: Local) -> None:
    """Out of the projection; keys beside values; and those token by token."""
    if local.profile.copies_heads:
        keys_values = local.heads.key_width + local.heads.value_width
        for size in (local.heads.joint_width, keys_values, keys_values):
            tape.run(kernels.copy(local.tokens, size, local.element), "attention.qkv")


def _rotate(tape: Tape, local: Local) -> None:
    """Queries, then keys; the backward turns the other way with the same kernels."""
    if local.model.positions != "rope":
        return
    for heads in (local.heads.queries, local.heads.keys):
        size = heads * (local.model.rope_size or local.model.head_size)
        for operation in _rotation(local, local.tokens, size):
            tape.run(operation, "attention.rope")


def _rotation(local: Local, rows: int, size: int) -> tuple[Operation, ...]:
    x, half = kernels.tensor(local.element, rows, size), kernels.tensor(local.element, rows, size // 2)
    if local.profile.rope == "fused":
        return (kernels.elementwise("rope", (x,), (x,), flops_per_element=6),)
    if local.profile.rope == "complex":
        wide = kernels.tensor(DType.FP32, rows, size)
        product = kernels.elementwise("mul", (wide,), (wide,), flops_per_element=3)
        casts = local.element is not DType.FP32
        up = (kernels.copy(rows, size, local.element, DType.FP32),) if casts else ()
        down = (kernels.copy(rows, size, DType.FP32, local.element),) if casts else ()
        return (*up, product, *down)
    return (
        kernels.elementwise("mul", (x,), (x,)),
        kernels.elementwise("neg", (half,), (half,)),
        kernels.rows_kernel(kernels.Kind.COPY, "cat", (x,), (x,), flops_per_element=0),
        kernels.elementwise("mul", (x,), (x,)),
        kernels.elementwise("add", (x, x), (x,)),
    )


def _head_norms(tape: Tape, local: Local, *, is_backward: bool) -> None:
    if not local.model.has_head_norms:
        return
    for heads in (local.heads.queries, local.heads.keys):
        rows, size = local.tokens * heads, local.model.head_size
        tape.run(
            kernels.norm("_fused_rms_norm", rows, size, local.element, is_backward=is_backward),
            "attention.head_norms",
        )


def _over(name: str, rows: int, size: int, dtype: DType) -> Operation:
    x = kernels.tensor(dtype, rows, size)
    return kernels.elementwise(name, (x,), (x,))
