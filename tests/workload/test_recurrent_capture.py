"""Recurrent layers as accelerators run them: one operation a layer, whatever the precision or the state."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from perfcast.core.graph import Graph
from perfcast.core.operation import OperationKind
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.step import OptimizerChoice, Program

STEPS, BATCH, INPUTS, HIDDEN = 7, 4, 16, 32


def recurrent(graph: Graph) -> list[tuple[str, int]]:
    found = [graph.operations[node.operation] for node in graph.nodes]
    return [(o.name, o.flops) for o in found if o.kind is OperationKind.RECURRENT]


class Layer(nn.Module):
    """Builds its layer when it is built, under symbolic tensors."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layer = kind(INPUTS, HIDDEN, **options)
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, *args: Any) -> Any:
        output = self.layer(*args)
        ends = output[1] if isinstance(output[1], tuple) else (output[1],)
        self.shapes = [tuple(t.shape) for t in (output[0], *ends)]
        return output


def layer_graph(kind: Any, *shape: int, training: bool = False, half: bool = False, **options: Any) -> Graph:
    def build() -> Program:
        module, x = Layer(kind, **options), torch.randn(*shape)
        return Program(module, (x,), loss_function=lambda output: output[0].sum(), batch_size=BATCH)

    choice = CaptureOptions(
        training=training,
        autocast_dtype=torch.float16 if half else None,
        optimizer=OptimizerChoice("none"),
    )
    return capture(build, choice)[0]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_a_layer_is_one_operation_in_every_precision(kind: Any, gates: int, half: bool) -> None:
    graph = layer_graph(kind, STEPS, BATCH, INPUTS, half=half)
    flops = 2 * STEPS * BATCH * gates * HIDDEN * (INPUTS + HIDDEN)
    assert recurrent(graph) == [("recurrent_layer", flops)]


def test_a_given_state_does_not_take_a_layer_apart() -> None:
    def build() -> Program:
        state = (torch.zeros(1, BATCH, HIDDEN), torch.zeros(1, BATCH, HIDDEN))
        return Program(Layer(nn.LSTM, batch_first=True), (torch.randn(BATCH, STEPS, INPUTS), state))

    graph = capture(build, CaptureOptions(training=False))[0]
    assert [name for name, _ in recurrent(graph)] == ["recurrent_layer"]


def test_every_layer_and_direction_is_counted() -> None:
    graph = layer_graph(nn.LSTM, STEPS, BATCH, INPUTS, num_layers=2, bidirectional=True)
    first, second = recurrent(graph)
    assert first[1] == 2 * (2 * STEPS * BATCH * 4 * HIDDEN * (INPUTS + HIDDEN))
    assert second[1] == 2 * (2 * STEPS * BATCH * 4 * HIDDEN * (2 * HIDDEN + HIDDEN))


def test_a_backward_is_twice_the_forward() -> None:
    graph = layer_graph(nn.LSTM, STEPS, BATCH, INPUTS, training=True)
    (_, forward), (name, backward) = recurrent(graph)
    assert name == "recurrent_layer_backward"
    assert backward == 2 * forward


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_outputs_have_the_shapes_that_pytorch_gives(options: dict[str, Any]) -> None:
    real = Layer(nn.LSTM, **options)
    real(torch.randn(BATCH, STEPS, INPUTS))
    symbolic: list[Layer] = []

    def build() -> Program:
        symbolic.append(Layer(nn.LSTM, **options))
        return Program(symbolic[-1], (torch.randn(BATCH, STEPS, INPUTS),))

    capture(build, CaptureOptions(training=False))
    assert symbolic[-1].shapes == real.shapes


def test_a_cell_is_two_products_and_one_kernel() -> None:
    def build() -> Program:
        state = (torch.zeros(BATCH, HIDDEN), torch.zeros(BATCH, HIDDEN))
        cell = nn.LSTMCell(INPUTS, HIDDEN)
        return Program(
            cell,
            (torch.randn(BATCH, INPUTS), state),
            loss_function=lambda out: out[0].sum(),
            batch_size=BATCH,
        )

    graph = capture(build, CaptureOptions(optimizer=OptimizerChoice("none")))[0]
    names = Counter(graph.operations[node.operation].name for node in graph.nodes)
    assert names["_thnn_fused_lstm_cell"] == names["_thnn_fused_lstm_cell_backward_impl"] == 1
    assert names["mm"] == 4  # two forward, the weights' gradients; the inputs need none
    assert not names["sigmoid"]
