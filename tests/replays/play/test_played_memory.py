"""What a replay holds at its fullest moment is what the recorded step held; sizes may depend on data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.profiler import ExecutionTraceObserver

from perfcast.replays.build.build import build_program
from perfcast.replays.judge.profiling import profile_memory
from perfcast.replays.play.played import Preparation
from perfcast.replays.play.player import Player
from perfcast.replays.play.session import peak_bytes
from perfcast.traces.execution_trace.reader import read_execution_trace

WIDTH, ROWS = 64, 96
Loss = Callable[[torch.Tensor, torch.nn.Module], torch.Tensor]


def by_where(rows: torch.Tensor, experts: torch.nn.Module) -> torch.Tensor:
    made = torch.zeros_like(rows)
    chosen = rows.topk(2, -1).indices % 3
    for index, expert in enumerate(experts):
        token, place = torch.where(chosen == index)
        made = made.index_add(0, token, expert(rows[token]) * rows[token, place, None])
    return made.sum()


def by_mask(rows: torch.Tensor, experts: torch.nn.Module) -> torch.Tensor:
    chosen = rows.argmax(-1) % 3
    parts = [expert(rows[chosen == index]) for index, expert in enumerate(experts)]
    return torch.cat(parts).sum() + rows.masked_select(rows > 1).sum()


def by_counts(rows: torch.Tensor, experts: torch.nn.Module) -> torch.Tensor:
    chosen = rows.argmax(-1) % 3
    counts = torch.bincount(chosen)
    kinds = torch.repeat_interleave(counts)
    parts = rows[chosen.argsort()].split(counts.tolist())
    made = torch.cat([expert(part) for expert, part in zip(experts, parts, strict=True)])
    return made[torch.unique(rows.argmax(-1))].sum() + made[kinds].sum()


@pytest.mark.parametrize("loss", [by_where, by_mask, by_counts])
def test_as_many_as_recorded_come_out_and_as_much_is_held(loss: Loss, tmp_path: Path) -> None:
    torch.manual_seed(0)
    experts = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
    optimizer, rows = torch.optim.SGD(experts.parameters(), momentum=0.9), torch.randn(ROWS, WIDTH)

    def step() -> None:
        made = loss(rows, experts)
        optimizer.zero_grad()
        made.backward()
        optimizer.step()

    step()
    observer = ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "one.et.json"))
    observer.start()
    step()
    observer.stop()
    observer.unregister_callback()
    program = build_program(read_execution_trace(tmp_path / "one.et.json"))
    player = Player(program, preparation=Preparation.AHEAD)
    found = player.rehearse()
    assert (found.failures, found.replaced) == ({}, {})
    player.play()
    assert peak_bytes(player) == pytest.approx(program.peak_bytes, rel=0.05)
    optimizer.zero_grad()
    states = 2 * sum(one.nbytes for one in experts.parameters())
    held = states + rows.nbytes + profile_memory(lambda: (step(), step()))  # type: ignore[arg-type,return-value]
    assert peak_bytes(player) == pytest.approx(held, rel=0.08)
