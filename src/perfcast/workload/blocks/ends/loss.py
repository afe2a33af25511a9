"""Cross entropy over a vocabulary that is cut over the tensor-parallel ranks.

With t tokens and v words on this rank: the largest logit, the logit of the target and the sum of exponentials
are each reduced over the ranks, t numbers of four bytes (Megatron-LM: core/tensor_parallel/cross_entropy.py).
"""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.core.work import Stream
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.tape import Tape

LOSS = "loss"
Kind = kernels.Kind


def loss_forward(tape: Tape, local: Local, words: int) -> None:
    """From the logits to the loss of each token."""
    if local.training.fuses_cross_entropy:
        x = kernels.tensor(local.element, local.tokens, words)
        tape.run(kernels.rows_kernel(Kind.LOSS, "cross_entropy", (x,), (x,), flops_per_element=8), LOSS)
        _reduce(tape, local, 2)
        return
    rows = local.tokens
    wide, picked = kernels.tensor(DType.FP32, rows, words), kernels.tensor(DType.FP32, rows, 1)
    if local.element is not DType.FP32:
        tape.run(kernels.copy(rows, words, local.element, DType.FP32), LOSS)
    if not _is_cut(local):
        tape.run(kernels.softmax(rows, words, DType.FP32, DType.FP32, is_log=True), LOSS)
        tape.run(_targets("nll_loss_forward", rows), LOSS)
        return
    tape.run(kernels.rows_kernel(Kind.REDUCTION, "amax", (wide,), (picked,), row=words), LOSS)
    _reduce(tape, local, 1)
    tape.run(kernels.elementwise("sub_", (wide, picked), (wide,)), LOSS)
    tape.run(_targets("gather", rows), LOSS)
    _reduce(tape, local, 1)
    tape.run(kernels.elementwise("exp_", (wide,), (wide,)), LOSS)
    tape.run(kernels.rows_kernel(Kind.REDUCTION, "sum", (wide,), (picked,), row=words), LOSS)
    _reduce(tape, local, 1)
    tape.run(kernels.elementwise("div_", (wide, picked), (wide,)), LOSS)


def loss_backward(tape: Tape, local: Local, words: int) -> None:
    """From the loss to the gradient of the logits; none where the forward has made it."""
    if local.training.fuses_cross_entropy:
        return
    rows = local.tokens
    wide, picked = kernels.tensor(DType.FP32, rows, words), kernels.tensor(DType.FP32, rows, 1)
    if _is_cut(local):
        tape.run(_targets("index_put_", rows), LOSS)
        tape.run(kernels.elementwise("mul_", (wide, picked), (wide,)), LOSS)
    else:
        tape.run(kernels.rows_kernel(Kind.LOSS, "nll_loss_backward", (picked,), (wide,)), LOSS)
        tape.run(kernels.softmax(rows, words, DType.FP32, DType.FP32, is_backward=True, is_log=True), LOSS)
    if local.element is not DType.FP32:
        tape.run(kernels.copy(rows, words, DType.FP32, local.element), LOSS)


def _is_cut(local: Local) -> bool:
    """Whether the program's own loss over a cut vocabulary runs, which it does on one rank too."""
    return local.profile.cuts_vocabulary


def _targets(name: str, rows: int) -> Operation:
    """One logit of each row is read or changed."""
    targets, values = kernels.tensor(DType.INT64, rows), kernels.tensor(DType.FP32, rows)
    kind = Kind.LOSS if "nll" in name else Kind.INDEXING
    return kernels.rows_kernel(kind, name, (targets, values), (values,))


def _reduce(tape: Tape, local: Local, numbers: int) -> None:
    """Some numbers of each token, over the ranks that hold parts of the vocabulary."""
    tape.collective(
        "all_reduce", DType.FP32.bytes_of(numbers * local.tokens), local.tensor_ranks, Stream.TENSOR, LOSS,
        world_size=local.plan.world_size, dtype=DType.FP32,
    )  # fmt: skip
