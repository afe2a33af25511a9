"""Recurrent layers as an accelerator's library runs them: a layer is one operation, a cell is fused.

A processor here steps through time operator by operator where its own library refuses a layer (half
precision, a given state); cuDNN and MIOpen take whole layers in every precision (PyTorch:
aten/src/ATen/native/cudnn/RNN.cpp), and a cell is two products and one kernel
(aten/src/ATen/native/RNN.cpp, ``_thnn_fused_lstm_cell``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from perfcast.workload.capture.recorder import Recorder

_LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def recurrent_calls(recorder: Recorder) -> dict[Any, Callable[..., Any]]:
    """What stands in for PyTorch's recurrent functions, by function."""
    run = [getattr(torch, name) for name in _LAYERS]
    layers = {function: _layer_call(recorder, function) for function in run}
    return {**layers, torch.lstm_cell: lambda *args: _lstm_cell(recorder, *args)}


def _layer_call(recorder: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(input: Tensor, state: Any, *rest: Any) -> Any:  # noqa: A002
        is_packed = isinstance(state, Tensor) and not state.is_floating_point()
        if is_packed:  # (data, batch sizes, state, …)
            return function(input, state, *rest)
        return _layers(recorder, input, state, *rest)

    return call


def _layers(
    recorder: Recorder,
    x: Tensor,
    state: Tensor | tuple[Tensor, Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """As ``torch.lstm`` and its kin: outputs, and the last states of every layer and direction."""
    states = (state,) if isinstance(state, Tensor) else tuple(state)
    if batch_first:
        x = x.transpose(0, 1).contiguous()
    directions = 2 if bidirectional else 1
    each = len(weights) // (num_layers * directions)
    last: list[tuple[Tensor, ...]] = []
    for layer in range(num_layers):
        own = weights[layer * directions * each : (layer + 1) * directions * each]
        part = [s[layer * directions : (layer + 1) * directions] for s in states]
        x, *ends = _Layer.apply(recorder, len(states), directions, x, *part, *own)  # type: ignore[no-untyped-call]
        last.append(tuple(ends))
        if dropout and training and layer < num_layers - 1:
            x = functional.dropout(x, dropout)
    ended = last[0] if num_layers == 1 else tuple(torch.cat(parts) for parts in zip(*last, strict=True))
    return (x.transpose(0, 1) if batch_first else x, *ended)


class _Layer(torch.autograd.Function):
    """All steps of one layer, both directions; it saves its inputs, its outputs and the gates."""

    @staticmethod
    def forward(
        ctx: Any, recorder: Recorder, num_states: int, directions: int, x: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        states, weights = tensors[:num_states], tensors[num_states:]
        steps, batch, _ = x.shape
        hidden = states[0].shape[-1]
        with recorder.paused():
            output = x.new_empty(steps, batch, directions * hidden)
            ends = tuple(x.new_empty(directions, batch, hidden) for _ in states)
            gates = x.new_empty(steps, batch, directions * weights[0].shape[0])
        with torch.enable_grad():
            recorder.record("recurrent_layer", (x, *weights, *states), {}, (output, *ends, gates))
        ctx.set_materialize_grads(False)
        ctx.recorder, ctx.num_states = recorder, num_states
        ctx.save_for_backward(x, output, gates, *states, *weights)
        return (output, *ends)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, *of_ends: Tensor | None) -> Any:
        x, output, gates, *tensors = ctx.saved_tensors
        states, weights = tensors[: ctx.num_states], tensors[ctx.num_states :]
        with ctx.recorder.paused():
            gradients = tuple(torch.empty_like(t) for t in (x, *states, *weights))
        args = (x, *weights, gradient, output, gates)
        ctx.recorder.record("recurrent_layer_backward", args, {}, gradients)
        return None, None, None, *gradients


def _lstm_cell(
    recorder: Recorder,
    x: Tensor,
    state: tuple[Tensor, Tensor],
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor | None = None,
    bias_hidden: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """As ``torch.lstm_cell``: the new state."""
    hidden, cell = state
    of_input = functional.linear(x, weight_input)
    of_hidden = functional.linear(hidden, weight_hidden)
    return _Cell.apply(recorder, of_input, of_hidden, cell, bias_input, bias_hidden)  # type: ignore[no-untyped-call, no-any-return]


class _Cell(torch.autograd.Function):
    """The gates of one step of an LSTM, behind its products; it saves the gates and both cells."""

    @staticmethod
    def forward(
        ctx: Any,
        recorder: Recorder,
        of_input: Tensor,
        of_hidden: Tensor,
        cell: Tensor,
        bias_input: Tensor | None,
        bias_hidden: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        with recorder.paused():
            hidden, new_cell = torch.empty_like(cell), torch.empty_like(cell)
            gates = torch.empty_like(of_input)
        with torch.enable_grad():
            args = (of_input, of_hidden, cell, bias_input, bias_hidden)
            recorder.record("_thnn_fused_lstm_cell", args, {}, (hidden, new_cell, gates))
        ctx.recorder, ctx.has_bias = recorder, bias_input is not None
        ctx.save_for_backward(cell, new_cell, gates)
        return hidden, new_cell

    @staticmethod
    def backward(ctx: Any, of_hidden: Tensor, of_cell: Tensor) -> Any:
        cell, new_cell, gates = ctx.saved_tensors
        with ctx.recorder.paused():
            gradient, of_old = torch.empty_like(gates), torch.empty_like(cell)
        args = (of_hidden, of_cell, cell, new_cell, gates)
        ctx.recorder.record("_thnn_fused_lstm_cell_backward_impl", args, {}, (gradient, of_old))
        bias = gradient.sum(0) if ctx.has_bias else None
        return None, gradient, gradient, of_old, bias, bias
