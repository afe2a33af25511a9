"""What a release of PyTorch that lacks something leads to: one line that says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.pipelining import PipelineStage, schedules

import perfcast
from perfcast.errors import UnsupportedTorchError
from perfcast.torch_internals import SEEN_WITH, needed_for, replaced
from perfcast.torch_internals.distributed import stages_vote_alone
from perfcast.workload.capture.capture import CaptureOptions
from perfcast.workload.parallel_program.capture import capture_parallel_program
from perfcast.workload.step import Program

EXAMPLE = Path(perfcast.__file__).parents[2] / "examples" / "fsdp_transformer.py"


def test_a_name_that_is_not_there_is_one_clear_error():
    known = r"^counting does not work with torch .* name '_no_such_name' from 'torch\._C' \(known to work: 2"
    with pytest.raises(UnsupportedTorchError, match=known), needed_for("counting"):
        from torch._C import _no_such_name  # noqa: F401


def test_what_is_not_there_cannot_be_replaced():
    with pytest.raises(UnsupportedTorchError, match=r"torch\.cpu has no 'no_such_name'"):
        replaced(torch.cpu, "no_such_name", None)


def test_what_is_replaced_is_put_back():
    before = torch.cpu.synchronize
    with replaced(torch.cpu, "synchronize", None):
        assert torch.cpu.synchronize is None
    assert torch.cpu.synchronize is before


def test_pipelines_that_agree_in_an_unknown_way_are_an_error_and_other_programs_are_not(
    monkeypatch: pytest.MonkeyPatch,
):
    def build() -> Program:
        linear = torch.nn.Linear(4, 4)
        PipelineStage(linear, 0, 2, torch.device("cpu"))
        return Program(linear, args=(torch.zeros(4, 4),))

    monkeypatch.setattr(schedules, "_PipelineSchedule", None)
    monkeypatch.delattr(PipelineStage, "_shape_inference", raising=False)
    with stages_vote_alone():
        pass
    with pytest.raises(UnsupportedTorchError, match="capturing a pipeline does not work with torch"):
        capture_parallel_program(build, CaptureOptions(), 2)


def test_the_command_line_says_it_in_one_line_and_exits_with_2():
    """As with a release whose C++ classes have no ``FakeWork``, and one where an import fails."""
    for missing in (
        "from torch._C import _distributed_c10d as c10d; c10d.FakeWork = type('FakeWork', (), {})",
        "import torch._guards; del torch._guards.active_fake_mode",
    ):
        arguments = ["predict", f"{EXAMPLE}:build", "--world-size", "8", "--cluster", "dgx-h100:8"]
        program = f"{missing}\nfrom perfcast.cli.main import run; raise SystemExit(run({arguments!r}))"
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert result.returncode == 2, result.stderr
        lines = result.stderr.strip().splitlines()
        assert "does not work with torch" in lines[-1]
        assert "Traceback" not in result.stderr


def test_this_release_is_one_of_those_that_were_seen():
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    first, last = (tuple(int(part) for part in one.split(".")) for one in SEEN_WITH)
    assert first <= release <= last
