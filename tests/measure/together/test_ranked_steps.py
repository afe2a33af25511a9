"""Steps of real processes on this machine: two ranks of a small program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_up_profile import profile
from perfcast.measure.together.calibration import crowding_of, threads_of_rank
from perfcast.measure.together.programs import RankedStep
from perfcast.measure.together.steps import measure_together

PROGRAM = """
import torch
from torch import distributed, nn

def build(batch_size, world_size):
    assert distributed.get_backend() == "gloo" and world_size == 2
    return nn.Linear(16, 16), (torch.zeros(batch_size, 16),)
"""


def step(folder: Path, function: str) -> RankedStep:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "profile_cpu.json").write_text(json.dumps(profile().to_json()))
    return RankedStep(
        model=f"{folder / 'program.py'}:{function}", mode="train", batch_size=4, sequence_length=None,
        num_ranks=2, is_replicated=True, profile_folder=str(folder), least_seconds=0.01,
    )  # fmt: skip


def test_two_ranks_run_a_replicated_program_and_the_slowest_is_timed(tmp_path: Path):
    found = measure_together(step(tmp_path, "build"))
    assert 0 < found.time.lower_quartile_seconds <= found.time.seconds < 5
    if found.waited_share is not None:
        assert 0 <= found.waited_share <= 1
        assert found.quiet_seconds > 0


def test_ranks_share_the_cores_unless_the_user_says_else(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [threads_of_rank(ranks) for ranks in (1, 3, 16)] == [8, 2, 1]
    assert [crowding_of(ranks) for ranks in (1, 3, 16)] == [1.0, 1.0, 2.0]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads_of_rank(4) == 5
    assert crowding_of(4) == 2.5
