"""PyTorch's own ring attention (torch/distributed/tensor/experimental/_context_parallel/_attention.py).

Ranks attend to the same blocks as in the ring of Transformer Engine (``attention.context_parallel``). What is
different:

* Keys and values are joined for each step's message, which is sent while the step attends
  (``_AllToAllRotater``), or gathered once beside the first step (``_AllGatherRotater``, the default).
* Outputs are joined in fp32 by operators of their own, ``out - sigmoid(lse_new - lse) · (out - new)``
  (``_SDPAMerger``, convert_to_f32), and cast back at the end.
* Gradients of queries, keys and values are summed in fp32. Those of keys and values follow the ring in fp32,
  always by the all-to-all, each beside the next step's block.
"""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.attention.context_setting import (
    CORE,
    ContextSetting,
    collect_keys,
    ring_block,
    send_keys,
)
from perfcast.workload.blocks.tape import Tape

_WIDE = DType.FP32


def ring_forward(tape: Tape, setting: ContextSetting) -> None:
    """Every block's output is joined to what was summed so far."""
    arriving = None
    for step in range(setting.parts):
        if step:
            tape.wait(arriving)
        arriving = _exchange(tape, setting, step)
        tape.run(ring_block(setting, step, is_backward=False), CORE)
        _run(tape, _widened(setting))
        if step:
            _run(tape, *_joined(setting))
    width = setting.heads.output_width
    _run(tape, kernels.copy(_rows(setting), width, _WIDE, setting.element))


def ring_backward(tape: Tape, setting: ContextSetting) -> None:
    """Gradients of keys and values come in from the rank before, are added to, and go on."""
    heads, arriving, summed = setting.heads, None, None
    widths = (heads.query_width, heads.key_width + heads.value_width)
    for step in range(setting.parts):
        if step:
            tape.wait(arriving)
        arriving = _exchange(tape, setting, step)
        tape.run(ring_block(setting, step, is_backward=True), CORE)
        tape.wait(summed)
        for width in widths:
            _run(tape, _added(setting, width))
        _run(tape, _copied(setting, widths[1], _WIDE, "cat"))
        summed = send_keys(tape, setting, 2 * setting.key_bytes)
    tape.wait(summed)
    for width in widths:
        _run(tape, kernels.copy(_rows(setting), width, _WIDE, setting.element))


def _exchange(tape: Tape, setting: ContextSetting, step: int) -> int | None:
    """Of keys and values: joined for a message, and sent on, or gathered once."""
    if step == setting.parts - 1:
        return None
    heads = setting.heads
    _run(tape, _copied(setting, heads.key_width + heads.value_width, setting.element, "cat"))
    if setting.plan.context_communication == "ring":
        return send_keys(tape, setting, setting.key_bytes)
    if step:
        return None
    return collect_keys(tape, setting, "all_gather", setting.parts * setting.key_bytes, is_awaited=False)


def _joined(setting: ContextSetting) -> tuple[Operation, ...]:
    """The weight of the new block of each row and head, a difference, a product, a difference."""
    x = kernels.tensor(_WIDE, _rows(setting), setting.heads.output_width)
    row = kernels.tensor(_WIDE, _rows(setting), setting.heads.queries)
    return (
        kernels.elementwise("sub", (row, row), (row,)),
        kernels.elementwise("sigmoid", (row,), (row,), flops_per_element=4),
        kernels.elementwise("sub", (x, x), (x,)),
        kernels.elementwise("mul", (x, row), (x,)),
        kernels.elementwise("sub", (x, x), (x,)),
        kernels.elementwise("sub", (row, row), (row,)),
        kernels.elementwise("logsigmoid", (row,), (row,), flops_per_element=6),
        kernels.elementwise("sub", (row, row), (row,)),
    )


def _widened(setting: ContextSetting) -> Operation:
    return kernels.copy(_rows(setting), setting.heads.output_width, setting.element, _WIDE)


def _added(setting: ContextSetting, width: int) -> Operation:
    total = kernels.tensor(_WIDE, _rows(setting), width)
    new = kernels.tensor(setting.element, _rows(setting), width)
    return kernels.elementwise("add_", (total, new), (total,))


def _copied(setting: ContextSetting, width: int, dtype: DType, name: str) -> Operation:
    x = kernels.tensor(dtype, _rows(setting), width)
    return kernels.rows_kernel(kernels.Kind.COPY, name, (x,), (x,), flops_per_element=0)


def _rows(setting: ContextSetting) -> int:
    return setting.batch * setting.sequence


def _run(tape: Tape, *operations: Operation) -> None:
    for operation in operations:
        tape.run(operation, CORE)
