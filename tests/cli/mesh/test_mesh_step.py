"""``perfcast mesh step`` as a person meets it: kernels, axes and steps are stand-ins, captures are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from made_up_profile import profile
from perfcast.cli.mesh.step import step
from perfcast.cost.cluster_profile import ClusterProfile, CollectiveSample, fit_axes
from perfcast.errors import CalibrationError, InputError
from perfcast.measure.collectives.plan import ProfilePlan
from perfcast.measure.steps import StepTime
from perfcast.measure.together.programs import RankedStep
from perfcast.measure.together.steps import RankedTime
from perfcast.published.mesh_cost_model import here


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[ProfilePlan]:
    """A machine that measures nothing; profiles that were asked for."""
    asked: list[ProfilePlan] = []

    def profiled(plan: ProfilePlan, path: Path, **options: Any) -> ClusterProfile:
        asked.append(plan)
        samples = [
            CollectiveSample(axis.name, axis.size, name, size, 1e-4 + size / 2e9)
            for axis in plan.axes for name in plan.collectives for size in plan.sizes_bytes
        ]  # fmt: skip
        return ClusterProfile("here", plan.backend, plan.world_size, fit_axes(samples).axes)

    def measured(asked: RankedStep) -> RankedTime:
        if "convolutions" in asked.model:
            raise CalibrationError("rank 1 was killed by SIGKILL")
        return RankedTime(StepTime(0.05, 0.04, 0.06, 9), waited_share=0.6, quiet_seconds=0.02)

    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(here, "calibrate_together", lambda *given, **options: profile())
    monkeypatch.setattr(here, "profile_here", profiled)
    monkeypatch.setattr(here, "measure_together", measured)
    return asked


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(step, [str(a) for a in arguments])


def test_a_step_is_forecast_measured_and_drawn_with_the_line_of_its_axis(
    plans: list[ProfilePlan], tmp_path: Path
):
    result = run("perceptron", "--json", tmp_path / "s.json", "--picture", tmp_path / "s.svg:axis-0")
    assert result.exit_code == 0, result.exception
    for words in ("perceptron", "50.0 ms", "all_reduce   100 µs  2.00 GB/s", "Peak memory", "Disturbed"):
        assert words in result.output
    assert "time among 2 ranks" in (tmp_path / "s.svg").read_text()
    answer = json.loads((tmp_path / "s.json").read_text())
    (found,) = answer["steps"]
    assert found["is_replicated"] is True
    assert found["relative_error"] == pytest.approx(found["forecast"]["step_seconds"] / 0.05 - 1)
    assert plans[0].collectives == ("all_reduce",)
    assert answer["origin"]


def test_a_step_that_cannot_be_run_says_why_and_the_others_go_on(plans: list[ProfilePlan]):
    result = run("convolutions", "perceptron", "--batch-size", "2")
    assert "convolutions: could not be run here: rank 1 was killed by SIGKILL" in " ".join(
        result.output.split()
    )
    assert "50.0 ms" in result.output


def test_a_program_that_is_parallel_is_run_as_it_is_on_the_axes_of_the_mesh(
    plans: list[ProfilePlan], tmp_path: Path
):
    run("tensor_parallel", "--ranks", "4", "--mesh", "dp=2,tp=2", "--batch-size", "1", "--forecast-only",
        "--json", tmp_path / "s.json")  # fmt: skip
    (found,) = json.loads((tmp_path / "s.json").read_text())["steps"]
    assert found["is_replicated"] is False
    assert {each["axis"] for each in found["forecast"]["collectives"]} == {"tp"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--mesh", "dp=3"), "3 = 3 places does not hold 2 ranks"),
        (("--mesh", "dp=2", "--discover"), "--discover finds the mesh; it takes no --mesh"),
        (("--ranks", "1", "--discover"), "one rank has no mesh"),
        (("nosuch",), "unknown model 'nosuch'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(arguments: tuple[str, ...], said: str):
    error = run(*arguments).exception
    assert isinstance(error, InputError)
    assert said in str(error)


def test_ranks_without_a_gpu_each_are_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    error = CliRunner().invoke(step, ["--device", "cuda", "--ranks", "2"]).exception
    assert isinstance(error, InputError)
    assert "PyTorch sees 1 here: take --ranks 1, or --device cpu" in str(error)
