"""Both ends of a model: the embedding, and the last norm, the head and the loss."""

from __future__ import annotations

import math
from functools import lru_cache

from perfcast.core.model.weights import pad_vocabulary
from perfcast.core.work import Calls
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.ends.loss import loss_backward, loss_forward
from perfcast.workload.blocks.layer.norm import norm_backward, norm_forward
from perfcast.workload.blocks.linear import (
    Linear,
    add,
    column_backward,
    column_forward,
    reduce_hidden,
)
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.products import accumulate, input_gradient, product_forward, weight_gradient
from perfcast.workload.blocks.tape import Tape

EMBEDDING, HEAD, PREDICTION = "embedding", "head", "prediction"


def words_of(local: Local) -> int:
    """Rows of the embedding, and of the head, on this rank; 2-D tensor parallelism cuts their columns too."""
    padded = pad_vocabulary(
        local.model.vocab_size, local.plan.tensor_parallel, local.framework.vocabulary_multiple
    )
    return math.ceil(padded / local.plan.tensor_parallel)


@lru_cache(maxsize=1024)
def embedding_forward(local: Local) -> Calls:
    """Rows of the table; a rank has some words, and the others' rows are zero until all are added."""
    tape, model = Tape(), local.model
    rows, size, dtype = local.tokens, table_width(local), local.residual
    tape.run(kernels.lookup(rows, size, table_rows(local), dtype), EMBEDDING)
    if local.plan.tensor_parallel > 1:
        whole = kernels.tensor(dtype, rows, size)
        tape.run(kernels.elementwise("masked_fill_", (whole,), (whole,)), EMBEDDING, num_launches=6)
        collective = "reduce_scatter" if local.plan.sequence_parallel else "all_reduce"
        reduce_hidden(tape, local, collective, EMBEDDING, width=size)
    if model.embedding_size:
        _whole_forward(tape, local, model.embedding_size, local.hidden, EMBEDDING)
    size = local.own_hidden
    for table in _further_tables(local):
        tape.run(kernels.lookup(local.own_tokens, size, table, dtype), EMBEDDING)
        add(tape, local.own_tokens, size, dtype, EMBEDDING)
    if model.has_embedding_norm:
        norm_forward(tape, local)
    if model.has_embedding_dropout:
        tape.run(kernels.dropout(local.own_tokens, size, dtype), EMBEDDING)
    tape.finish()
    return tape.calls()


@lru_cache(maxsize=1024)
def embedding_backward(local: Local) -> Calls:
    """Gradients of the tables; nothing where they do not train."""
    if not local.trains("embedding"):
        return ()
    tape, model, size, dtype = Tape(), local.model, local.own_hidden, local.residual
    if model.has_embedding_dropout:
        tape.run(kernels.dropout_backward(local.own_tokens, size, dtype), EMBEDDING)
    if model.has_embedding_norm:
        norm_backward(tape, local)
    for table in _further_tables(local):
        _table_gradient(tape, local, local.own_tokens, size, table)
    if model.embedding_size:
        _whole_backward(tape, local, model.embedding_size, local.hidden, EMBEDDING)
    if local.plan.sequence_parallel:
        reduce_hidden(tape, local, "all_gather", EMBEDDING, width=table_width(local))
    _table_gradient(tape, local, local.tokens, table_width(local), table_rows(local))
    return tape.calls()


@lru_cache(maxsize=1024)
def head_forward(local: Local) -> Calls:
    """Last norm, logits, loss."""
    tape, model = Tape(), local.model
    if model.has_final_norm:
        norm_forward(tape, local)
    if model.has_head_transform:
        _whole_forward(tape, local, local.hidden, local.hidden, HEAD, has_bias=True)
        x = kernels.tensor(local.element, local.own_tokens, local.hidden)
        tape.run(kernels.elementwise(model.activation, (x,), (x,), flops_per_element=6), HEAD)
        norm_forward(tape, local)
    if model.embedding_size:
        _whole_forward(tape, local, local.hidden, model.embedding_size, HEAD)
    column_forward(tape, local, _head_linear(local))
    if model.caps_logits:
        _cap(tape, local)
    loss_forward(tape, local, words_of(local))
    tape.finish()
    return tape.calls()


@lru_cache(maxsize=1024)
def head_backward(local: Local) -> Calls:
    """Its mirror image; where nothing before the head trains, its input has no gradient."""
    tape, model = Tape(local.trains_module), local.model
    passes_on = local.training.tuning.has_gradient(model.num_layers - 1)
    loss_backward(tape, local, words_of(local))
    if model.caps_logits:
        _cap(tape, local)
    column_backward(tape, local, _head_linear(local), passes_on=passes_on)
    if model.embedding_size:
        _whole_backward(tape, local, local.hidden, model.embedding_size, HEAD)
    if model.has_head_transform:
        norm_backward(tape, local)
        x, name = (
            kernels.tensor(local.element, local.own_tokens, local.hidden),
            f"{model.activation}_backward",
        )
        tape.run(kernels.elementwise(name, (x, x), (x,), flops_per_element=14), HEAD)
        _whole_backward(tape, local, local.hidden, local.hidden, HEAD)
    if model.has_final_norm and (passes_on or local.trains("norms")):
        norm_backward(tape, local)
    tape.finish()
    return tape.calls()


@lru_cache(maxsize=1024)
def prediction_forward(local: Local) -> Calls:
    """What a layer that predicts one token further needs beside itself: the next token's embedding, normed
    and joined to the stream, a product back to the hidden size, and a head (DeepSeek-V3, 2024, section 2.2).
    """
    tape = Tape()
    tape.add(embedding_forward(local))
    for _ in range(2):
        norm_forward(tape, local)
    column_forward(tape, local, _join_linear(local))
    reduce_hidden(tape, local, "all_gather", PREDICTION)
    tape.add(head_forward(local))
    tape.finish()
    return tape.calls()


@lru_cache(maxsize=1024)
def prediction_backward(local: Local) -> Calls:
    """Its mirror image."""
    tape = Tape(local.trains_module)
    tape.add(head_backward(local))
    column_backward(tape, local, _join_linear(local))
    for _ in range(2):
        norm_backward(tape, local)
    tape.add(embedding_backward(local))
    tape.finish()
    return tape.calls()


def table_width(local: Local) -> int:
    """Columns of the embedding on this rank."""
    return local.model.embedding_size or local.own_hidden


def table_rows(local: Local) -> int:
    """Rows of the embedding on this rank: with 2-D tensor parallelism more, since columns are cut too."""
    return words_of(local) * local.plan.tensor_parallel_inputs


def _further_tables(local: Local) -> tuple[int, ...]:
    """Rows of the tables of positions and of token types, which every rank has whole."""
    model = local.model
    positions = model.max_positions if model.positions == "learned" else 0
    return tuple(rows for rows in (positions, model.num_token_types) if rows)


def _head_linear(local: Local) -> Linear:
    return Linear(
        HEAD, (words_of(local),), has_bias=local.model.has_head_bias, inputs=local.model.embedding_size,
        in_fp8=False,
    )  # fmt: skip


def _join_linear(local: Local) -> Linear:
    return Linear(PREDICTION, (local.hidden // local.plan.tensor_parallel,), inputs=2 * local.hidden)


def _table_gradient(tape: Tape, local: Local, rows: int, size: int, count: int) -> None:
    operation = kernels.lookup_backward(rows, size, count, local.element)
    tape.run(operation, EMBEDDING, is_weight_gradient=True)
    accumulate(tape, local, count * size, EMBEDDING)


def _whole_forward(
    tape: Tape, local: Local, inputs: int, outputs: int, module: str, *, has_bias: bool = False
) -> None:
    """A linear layer that no rank cuts, never in fp8."""
    product_forward(tape, local, local.own_tokens, outputs, inputs, module, in_fp8=False, has_bias=has_bias)


def _whole_backward(tape: Tape, local: Local, inputs: int, outputs: int, module: str) -> None:
    """Gradients of its input and of its weight, which a plain linear layer adds in a kernel of its own."""
    rows = local.own_tokens
    input_gradient(tape, local, rows, outputs, inputs, module, in_fp8=False)
    weight_gradient(tape, local, rows, outputs, inputs, module, in_fp8=False, fuses=False)


def _cap(tape: Tape, local: Local) -> None:
    """A scaled tanh of the logits, or its derivative."""
    x = kernels.tensor(local.element, local.tokens, words_of(local))
    tape.run(kernels.elementwise("tanh", (x,), (x,), flops_per_element=3), HEAD)
