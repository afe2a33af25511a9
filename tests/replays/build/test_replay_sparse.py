"""Embeddings with sparse gradients: tensors without memory of their own are handed from call to call."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ExecutionTraceObserver

from perfcast.replays.build.build import build_program
from perfcast.replays.build.select import Selection
from perfcast.replays.play.player import Player
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.execution_trace.reader import read_execution_trace


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> ExecutionTrace:
    path = tmp_path_factory.mktemp("sparse") / "step.json"
    bag = torch.nn.EmbeddingBag(50, 8, mode="sum", sparse=True)
    linear = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*bag.parameters(), *linear.parameters()], lr=0.1)
    indices, offsets = torch.randint(50, (20,)), torch.arange(0, 20, 4)
    observer = ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    for _ in range(2):
        optimizer.zero_grad()
        linear(bag(indices, offsets)).sum().backward()
        optimizer.step()
    observer.stop()
    observer.unregister_callback()
    return read_execution_trace(path)


def test_a_step_with_sparse_gradients_is_covered_whole_and_plays(recorded: ExecutionTrace):
    program = build_program(recorded)
    assert [one for one in program.skipped if not one.is_harmless] == []
    assert sum(call.operator == "aten::_values" for call in program.calls) >= 2
    player = Player(program)
    found = player.rehearse()
    assert (found.failures, found.replaced) == ({}, {})
    assert len(player.run(2, warm_up=0).wall_seconds) == 2


def test_without_the_call_that_makes_it_a_sparse_tensor_is_not_made_up(recorded: ExecutionTrace):
    program = build_program(recorded, selection=Selection(module="Optimizer"))
    (lost,) = {one.reason for one in program.skipped if not one.is_harmless}
    assert lost == "nothing that is played makes its sparse tensor"
