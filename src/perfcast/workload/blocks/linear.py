"""Linear layers under tensor parallelism: products of one rank, and the collectives around them.

A column-parallel layer has a part of the outputs, a row-parallel one a part of the inputs (Shoeybi et al.:
Megatron-LM, 2019, section 3). Without sequence parallelism a pair of them costs an all-reduce of tokens ×
hidden in the forward and one in the backward; with it an all-gather and a reduce-scatter each
(Korthikanti et al.: 2022, section 4.2.2), and where the gathered input is not kept, one more all-gather.

2-D: t_in ranks cut the hidden size and t_out = tp / t_in the heads or the MLP. A column-parallel product
gives partial sums that are reduced over the t_in ranks and cut among them, so that nothing between the two
products is done twice; they are gathered again before the row-parallel one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.work import Stream
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.adapters import adapters_backward, adapters_forward
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.products import multiply, quantise, weight_gradient
from perfcast.workload.blocks.tape import Tape


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer on one rank; the hidden size is what tensor parallelism leaves whole.

    Attributes:
        module: 'attention.qkv' …
        widths: Elements of a token on this rank on the side that is cut: of each product's outputs in a
            column-parallel layer (several products read the same input), of the inputs in a row-parallel one.
        inputs: Of a column-parallel layer, elements of a token of its input where that is not the stream.
        in_fp8: Whether an fp8 training computes it in fp8.
    """

    module: str
    widths: tuple[int, ...]
    has_bias: bool = False
    inputs: int = 0
    in_fp8: bool = True


def column_forward(tape: Tape, local: Local, linear: Linear) -> None:
    """tokens × hidden (a part of the tokens with sequence parallelism) → tokens × widths."""
    _column_products(tape, local, linear)
    adapters_forward(tape, local, linear.module)


def _column_products(tape: Tape, local: Local, linear: Linear) -> None:
    size = linear.inputs or local.own_hidden
    if local.plan.sequence_parallel:
        has_adapters = bool(local.adapters_of(linear.module))
        if local.plan.overlaps_tensor and local.plan.tensor_parallel > 1 and not has_adapters:
            _gather_beside(tape, local, linear, backward=False)
            return
        _gather_operand(tape, local, linear, width=size)
    _quantise(tape, local, linear, local.tokens, size)
    for width in linear.widths:
        n = width * local.plan.tensor_parallel_inputs
        _cast_weight(tape, local, linear, n * size)
        _product(tape, local, linear, (local.tokens, n, size), "nt")
    _communicate_inputs(tape, local, "reduce_scatter", sum(linear.widths), linear.module)


def row_forward(tape: Tape, local: Local, linear: Linear) -> None:
    """tokens × width → tokens × hidden, summed over the ranks."""
    _row_products(tape, local, linear)
    adapters_forward(tape, local, linear.module)


def _row_products(tape: Tape, local: Local, linear: Linear) -> None:
    (width,) = linear.widths
    _communicate_inputs(tape, local, "all_gather", width, linear.module)
    k = width * local.plan.tensor_parallel_inputs
    _quantise(tape, local, linear, local.tokens, k)
    _cast_weight(tape, local, linear, k * local.own_hidden)
    if local.plan.overlaps_tensor and local.plan.tensor_parallel > 1:
        _reduce_beside(tape, local, linear, k)
        return
    _product(tape, local, linear, (local.tokens, local.own_hidden, k), "nt")
    reduce_hidden(tape, local, _reduction(local), linear.module)


def row_backward(tape: Tape, local: Local, linear: Linear) -> None:
    """Gradient of tokens × hidden → that of tokens × width, and the weight's."""
    _row_gradients(tape, local, linear)
    adapters_backward(tape, local, linear.module)


def _row_gradients(tape: Tape, local: Local, linear: Linear) -> None:
    (width,) = linear.widths
    k = width * local.plan.tensor_parallel_inputs
    if linear.has_bias:
        tape.run(
            kernels.column_sum(local.own_tokens, local.own_hidden, local.element),
            linear.module,
            is_weight_gradient=True,
        )
    if local.plan.sequence_parallel:
        if local.plan.overlaps_tensor and local.plan.tensor_parallel > 1:
            _gather_beside(tape, local, linear, backward=True)
            _weight_gradient(tape, local, linear, local.own_hidden, k)
            return
        _gather_operand(tape, local, linear)
    _quantise(tape, local, linear, local.tokens, local.own_hidden)
    _product(tape, local, linear, (local.tokens, k, local.own_hidden), "nn")
    reduced = _communicate_inputs(tape, local, "reduce_scatter", width, linear.module, is_awaited=False)
    _weight_gradient(tape, local, linear, local.own_hidden, k)
    tape.wait(reduced)


def column_backward(tape: Tape, local: Local, linear: Linear, *, passes_on: bool = True) -> None:
    """Gradient of tokens × widths → that of tokens × hidden, and the weights'.

    The reduction of the input's gradient runs beside the products of the weights' where the program can, and
    so does the gather of the kept part of the input. What adapters add to the input's gradient is reduced
    with it.

    Args:
        passes_on: Whether anything before it trains; else its input has no gradient.
    """
    size = linear.inputs or local.own_hidden
    overlaps, inputs = local.profile.overlaps_input_gradient, local.plan.tensor_parallel_inputs
    _communicate_inputs(tape, local, "all_gather", sum(linear.widths), linear.module)
    if linear.has_bias:
        for width in linear.widths:
            tape.run(
                kernels.column_sum(local.tokens, width, local.element), linear.module, is_weight_gradient=True
            )
    gathered = None
    trains = local.trains_module(linear.module)
    if local.plan.sequence_parallel and local.profile.gathers_again and trains:
        gathered = _gather_operand(tape, local, linear, width=size, is_awaited=not overlaps)
    reduced = None
    if passes_on:
        _input_gradients(tape, local, linear, size)
        adapters_backward(tape, local, linear.module)
        reduced = reduce_hidden(
            tape, local, _reduction(local), linear.module, width=size, is_awaited=not overlaps
        )
    tape.wait(gathered)
    for width in linear.widths:
        _weight_gradient(tape, local, linear, width * inputs, size)
    tape.wait(reduced)


def _input_gradients(tape: Tape, local: Local, linear: Linear, size: int) -> None:
    """tokens × size, of each product one and their sum."""
    inputs = local.plan.tensor_parallel_inputs
    for place, width in enumerate(linear.widths):
        _quantise(tape, local, linear, local.tokens, width * inputs)
        _product(tape, local, linear, (local.tokens, size, width * inputs), "nn")
        if place:
            add(tape, local.tokens, size, local.element, linear.module)


def add(tape: Tape, rows: int, size: int, dtype: DType, module: str) -> None:
    """A sum of two tensors."""
    x = kernels.tensor(dtype, rows, size)
    tape.run(kernels.elementwise("add", (x, x), (x,)), module)


# ---- collectives ---------------------------------------------------------------------------------------


def reduce_hidden(
    tape: Tape,
    local: Local,
    collective: str,
    module: str,
    *,
    width: int = 0,
    is_awaited: bool = True,
    parts: int = 1,
    dtype: DType | None = None,
) -> int | None:
    """Tokens × hidden (or ``width``) among the ranks that cut outputs: all tensor-parallel ones, but in 2-D.

    Args:
        parts: Of so many equal collectives, one.
        dtype: Of the elements; by default that of activations.
    """
    elements, element = local.tokens * (width or local.own_hidden), dtype or local.element
    return tape.collective(
        collective, element.bytes_of(elements) // parts, output_ranks(local), Stream.TENSOR, module,
        world_size=local.plan.world_size, dtype=element, is_awaited=is_awaited,
    )  # fmt: skip


def _gather_operand(
    tape: Tape, local: Local, linear: Linear, *, width: int = 0, is_awaited: bool = True
) -> int | None:
    """What a product reads of all ranks; in fp8 it is cast before it travels (Transformer Engine:
    module/layernorm_linear.py and base.py, gather_along_first_dim of a quantised tensor)."""
    return reduce_hidden(
        tape, local, "all_gather", linear.module, width=width, is_awaited=is_awaited,
        dtype=_operand_type(local, linear),
    )  # fmt: skip


def _operand_type(local: Local, linear: Linear) -> DType:
    """An adapter reads the gathered operand too, which then travels as it is."""
    is_narrow = local.is_narrow and linear.in_fp8 and not local.adapters_of(linear.module)
    return local.precision if is_narrow else local.element


def output_ranks(local: Local) -> Sequence[int]:
    """Ranks that hold the same part of the hidden size: neighbours."""
    ranks = local.tensor_ranks
    return ranks[: len(ranks) // local.plan.tensor_parallel_inputs]


def input_ranks(local: Local) -> Sequence[int]:
    """Ranks that hold the same heads, each with its part of the hidden size."""
    ranks = local.tensor_ranks
    return ranks[:: len(ranks) // local.plan.tensor_parallel_inputs]


def _reduction(local: Local) -> str:
    return "reduce_scatter" if local.plan.sequence_parallel else "all_reduce"


def _communicate_inputs(
    tape: Tape, local: Local, collective: str, width: int, module: str, *, is_awaited: bool = True
) -> int | None:
    """What lies between two products of a 2-D cut, among the ranks that cut the hidden size."""
    elements = local.tokens * width * local.plan.tensor_parallel_inputs
    return tape.collective(
        collective, local.element.bytes_of(elements), input_ranks(local), Stream.TENSOR, module,
        world_size=local.plan.world_size, dtype=local.element, is_awaited=is_awaited,
    )  # fmt: skip


# ---- products ----------------------------------------------------------------------------------------


def _product(tape: Tape, local: Local, linear: Linear, shape: tuple[int, int, int], layout: str) -> None:
    """One product of (m, n, k); the bias of a forward is added in its store, where it is not left over."""
    has_bias = linear.has_bias and layout == "nt" and not local.profile.fuses_residual
    multiply(tape, local, shape, layout, linear.module, in_fp8=linear.in_fp8, has_bias=has_bias)


def _weight_gradient(tape: Tape, local: Local, linear: Linear, outputs: int, inputs: int) -> None:
    weight_gradient(tape, local, local.tokens, outputs, inputs, linear.module, in_fp8=linear.in_fp8)


def _quantise(tape: Tape, local: Local, linear: Linear, rows: int, size: int) -> None:
    quantise(tape, local, rows, size, linear.module, in_fp8=linear.in_fp8)


def _cast_weight(tape: Tape, local: Local, linear: Linear, num_elements: int) -> None:
    if local.casts_weights and local.element is not DType.FP32:
        weight = kernels.tensor(DType.FP32, num_elements)
        narrow = kernels.tensor(local.element, num_elements)
        tape.run(
            kernels.rows_kernel(kernels.Kind.COPY, "_to_copy", (weight,), (narrow,), flops_per_element=0),
            linear.module,
        )


# ---- collectives beside products ------------------------------------------------------------------------


def num_chunks(local: Local) -> int:
    """Parts of the tokens that travel one by one: as many as ranks, where that divides."""
    ranks = len(output_ranks(local))
    return ranks if local.tokens % ranks == 0 else 1


def _gather_beside(tape: Tape, local: Local, linear: Linear, *, backward: bool) -> None:
    """A ring all-gather in tp - 1 steps; each part is multiplied as soon as it is there.

    (Transformer Engine: userbuffers, 'ring_exchange'; Wang et al.: Overlap Communication with Dependent
    Computation via Decomposition, ASPLOS 2023.)
    """
    ranks, chunks = output_ranks(local), num_chunks(local)
    rows, layout = local.tokens // chunks, "nn" if backward else "nt"
    arrived: int | None = None
    size = linear.inputs or local.hidden
    operand = _operand_type(local, linear)
    part = operand.bytes_of(rows * size)
    _quantise(tape, local, linear, local.tokens // len(ranks), size)
    for chunk in range(chunks):
        tape.wait(arrived)
        if chunk < chunks - 1:
            arrived = tape.collective(
                "send", part, ranks[:2], Stream.TENSOR, linear.module,
                world_size=local.plan.world_size, dtype=operand, is_awaited=False,
            )  # fmt: skip
        for width in linear.widths:
            shape = (rows, width, size)
            _product(tape, local, linear, shape, layout)


def _reduce_beside(tape: Tape, local: Local, linear: Linear, k: int) -> None:
    """Each part of the outputs is reduced while the next is multiplied."""
    chunks, last = num_chunks(local), None
    for _ in range(chunks):
        _product(tape, local, linear, (local.tokens // chunks, local.own_hidden, k), "nt")
        last = reduce_hidden(tape, local, _reduction(local), linear.module, is_awaited=False, parts=chunks)
    tape.wait(last)
