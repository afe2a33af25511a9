"""Recordings at a batch and at four times as much: the replay of the one, scaled, is that of the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.profiler import ExecutionTraceObserver

from perfcast.errors import InputError
from perfcast.replays.build.build import build_program
from perfcast.replays.program.program import ReplayProgram, slots_in
from perfcast.replays.scale.batch import scale_batch
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.execution_trace.reader import read_execution_trace
from perfcast.traces.scaling.recorded.nodes import calls_of_nodes
from perfcast.traces.scaling.scaling import scale

BATCH, TOKENS, WIDTH = 16, 12, 40
Step = Callable[[int], torch.Tensor]


def experts(route: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]) -> Step:
    """Two experts, each of which has every other token."""
    first, second, last = (torch.nn.Linear(a, b) for a, b in ((24, WIDTH), (24, WIDTH), (WIDTH, 10)))

    def step(batch: int) -> torch.Tensor:
        rows = torch.randn(batch, TOKENS, 24).view(-1, 24)
        chosen = (torch.randn(batch * TOKENS).argsort().argsort() % 2)[:, None]
        made = rows.new_zeros(rows.shape[0], WIDTH)
        for index, expert in enumerate((first, second)):
            own = route(chosen, rows, index)
            made = made.index_add(0, own, expert(rows[own]))
        return last(made).relu().sum()

    return step


def by_where(chosen: torch.Tensor, rows: torch.Tensor, index: int) -> torch.Tensor:
    return torch.where(chosen == index)[0]


def by_one_hot(chosen: torch.Tensor, rows: torch.Tensor, index: int) -> torch.Tensor:
    mask = torch.nn.functional.one_hot(chosen[:, 0], 2).t()
    return mask[index].nonzero().squeeze(1)


def graph(*, is_scattered: bool) -> Step:
    """Messages along edges, four times as many as nodes."""
    layers = [torch.nn.Linear(24, WIDTH), torch.nn.Linear(WIDTH, 10)]

    def step(batch: int) -> torch.Tensor:
        nodes, edges = torch.randn(batch, 24), torch.randint(0, batch, (2, 4 * batch))
        for layer in layers:
            sent = layer(nodes)[edges[0]]
            made = torch.zeros(batch, sent.shape[1])
            if is_scattered:
                nodes = made.scatter_add(0, edges[1][:, None].expand_as(sent), sent).relu()
            else:
                nodes = made.index_add(0, edges[1], sent).relu()
        return nodes.sum()

    return step


def recorded(step: Step, batch: int, folder: Path) -> ExecutionTrace:
    step(batch).backward()  # gradients are there from here on
    path = folder / f"{batch}.json"
    observer = ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    step(batch).backward()
    observer.stop()
    observer.unregister_callback()
    return read_execution_trace(path)


def shapes(program: ReplayProgram) -> list[tuple[str, list[tuple[int, ...]]]]:
    return [
        (call.name, [program.slots[slot].shape for slot in slots_in(call.arguments)])
        for call in program.calls
    ]


@pytest.mark.parametrize(
    "step",
    [
        experts(by_where),
        experts(by_one_hot),
        graph(is_scattered=False),
        graph(is_scattered=True),
    ],
    ids=["where", "one hot", "index_add", "scatter"],
)
def test_a_scaled_replay_has_the_sizes_of_the_recording_and_of_the_forecast(step: Step, tmp_path: Path):
    trace = recorded(step, BATCH, tmp_path)
    scaled = scale_batch(build_program(trace), BATCH, 4 * BATCH)
    direct = build_program(recorded(step, 4 * BATCH, tmp_path))
    assert shapes(scaled) == shapes(direct)
    assert [slot.strides for slot in scaled.slots] == [slot.strides for slot in direct.slots]
    assert scaled.peak_bytes == pytest.approx(direct.peak_bytes, rel=0.02)
    forecast = scale(calls_of_nodes(trace), BATCH, 4 * BATCH)
    for call, (_, own) in zip(scaled.calls, shapes(scaled), strict=True):
        assert list(forecast.shapes(call.node_id)) == own, call.name


def test_a_call_that_does_not_show_what_it_makes_is_named(tmp_path: Path):
    lengths = torch.full((BATCH,), 3)

    def step(batch: int) -> torch.Tensor:
        rows = torch.randn(batch, 3, 8, requires_grad=True)
        packed = torch.nn.utils.rnn.pack_padded_sequence(rows, lengths, batch_first=True)
        return torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0].sum()

    program = build_program(recorded(step, BATCH, tmp_path))
    with pytest.raises(InputError, match=r"cannot be changed from 16 to 64: aten::\w+ \(node \d+\)"):
        scale_batch(program, BATCH, 4 * BATCH)


def test_a_size_that_nothing_decides_is_said(tmp_path: Path):
    def step(batch: int) -> torch.Tensor:
        places = torch.randint(0, 8, (batch, 3))
        return (
            torch.nn.functional.one_hot(places, 4 * batch)
            .float()
            .mul(torch.ones(1, requires_grad=True))
            .sum()
        )

    scaled = scale_batch(build_program(recorded(step, BATCH, tmp_path)), BATCH, 4 * BATCH)
    assert any("one_hot, 64, does not follow the batch (16 to 64" in words for words in scaled.assumed)
