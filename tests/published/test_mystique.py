from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver

from made_up_replays import two_layers
from perfcast.errors import InputError
from perfcast.published.mystique import (
    PUBLIC_TRACES,
    compare,
    judge_replay,
    make_benchmark,
    operator_coverage,
    time_coverage,
)
from perfcast.replays.program.program import Skipped


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The execution trace of a training step of a small perceptron."""
    path = tmp_path_factory.mktemp("recorded") / "step.et.json"
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(8, 16), torch.randint(4, (8,))
    observer = ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    observer.stop()
    observer.unregister_callback()
    return path


def test_a_recorded_training_step_becomes_a_benchmark_that_needs_pytorch_alone(recorded, tmp_path):
    made = make_benchmark([recorded], tmp_path / "benchmark")
    command = [sys.executable, "-I", str(made.folder / "benchmark.py"), "--repeat", "2", "--warm-up", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["median_step_seconds"] > 0
    assert made.manifest["skipped"] == [] or all(one["is_harmless"] for one in made.manifest["skipped"])


def test_a_replay_is_judged_by_its_coverage_and_its_time():
    found = judge_replay(two_layers(), original_seconds=1.0, repeats=3)
    assert found.operator_coverage == 1
    assert 0 < found.iteration_seconds < 1
    assert found.relative_error == found.iteration_seconds - 1


def test_coverage_counts_what_was_left_out_unless_nothing_is_lost_by_it():
    program = two_layers()  # seven calls
    lost, harmless = Skipped(1, "aten::odd", "why"), Skipped(2, "aten::even", "why", is_harmless=True)
    assert operator_coverage(replace(program, skipped=(harmless,))) == 1
    assert operator_coverage(replace(program, skipped=(lost, harmless))) == 7 / 8
    assert operator_coverage(program, num_failed=7) == 0


def test_coverage_by_time_leaves_out_what_has_no_recorded_time():
    program = two_layers()
    timed = [replace(call, recorded_seconds=1.0) for call in program.calls[:3]]
    untimed = [replace(call, recorded_seconds=float("nan")) for call in program.calls[3:]]
    lost = Skipped(1, "aten::odd", "why", recorded_seconds=1.0)
    assert time_coverage(replace(program, calls=(*timed, *untimed), skipped=(lost,))) == 3 / 4


def test_public_traces_are_looked_for_and_those_that_are_there_are_covered(recorded, tmp_path):
    with pytest.raises(InputError, match="public traces"):
        compare(tmp_path)
    place = tmp_path / "traces" / "param" / "linear_et.json.gz"
    place.parent.mkdir(parents=True)
    shutil.copy(recorded, place)
    (figure,) = compare(tmp_path).figures
    assert (figure.published, figure.ours) == (100.0, 100.0)


def test_a_trace_that_the_successor_does_not_end_says_why():
    assert all(one.why for one in PUBLIC_TRACES if one.successor is None)
