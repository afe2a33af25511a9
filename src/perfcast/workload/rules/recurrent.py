"""Recurrent layers as PyTorch's fused operators see them."""

from __future__ import annotations

import math

from perfcast.core.operation import OperationKind
from perfcast.core.tensor import TensorType
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, RuleTable

RECURRENT = RuleTable()


def _cell_flops(input_: TensorType, weights: tuple[TensorType, ...]) -> int:
    """Every step multiplies each sample with the input and the hidden weights: 2 flops per weight."""
    steps_times_batch = math.prod(input_.shape[:2])
    return sum(2 * steps_times_batch * math.prod(w.shape) for w in weights if len(w.shape) == 2)


def _work(input_: TensorType, weights: tuple[TensorType, ...], passes: int) -> OperatorWork:
    hidden = max((w.shape[1] for w in weights if len(w.shape) == 2), default=0)
    return OperatorWork(
        OperationKind.RECURRENT,
        flops=passes * _cell_flops(input_, weights),
        attributes=(
            ("steps", input_.shape[0]),
            ("batch", input_.shape[1]),
            ("hidden", hidden),
            ("passes", passes),
        ),
    )


@RECURRENT.rule("mkldnn_rnn_layer")
def mkldnn_rnn_layer(call: OperatorCall) -> OperatorWork:
    """(input, w_ih, w_hh, b_ih, b_hh, h, c, …)."""
    return _work(call.args[0], call.args[1:3], passes=1)


@RECURRENT.rule("mkldnn_rnn_layer_backward")
def mkldnn_rnn_layer_backward(call: OperatorCall) -> OperatorWork:
    """Gradients of inputs and of weights: twice the forward."""
    return _work(call.args[0], call.args[1:3], passes=2)


def _matrices(call: OperatorCall) -> tuple[TensorType, ...]:
    """Weights among the arguments behind the input: what has two dims."""
    return tuple(arg for arg in call.args[1:] if isinstance(arg, TensorType) and len(arg.shape) == 2)


@RECURRENT.rule("recurrent_layer")
def recurrent_layer(call: OperatorCall) -> OperatorWork:
    """(input, weights and biases of every direction …, states …), as accelerators' libraries run a layer."""
    return _work(call.args[0], _matrices(call), passes=1)


@RECURRENT.rule("recurrent_layer_backward")
def recurrent_layer_backward(call: OperatorCall) -> OperatorWork:
    """Gradients of inputs and of weights: twice the forward."""
    return _work(call.args[0], _matrices(call), passes=2)


@RECURRENT.rule("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell")
def fused_cell(call: OperatorCall) -> OperatorWork:
    """The gates' arithmetic only; its products are operators of their own."""
    return OperatorWork(OperationKind.ELEMENTWISE, flops=12 * call.outputs[0].num_elements)


@RECURRENT.rule("_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_gru_cell_backward")
def fused_cell_backward(call: OperatorCall) -> OperatorWork:
    """The gates' arithmetic only."""
    return OperatorWork(OperationKind.ELEMENTWISE, flops=20 * call.outputs[0].num_elements)
