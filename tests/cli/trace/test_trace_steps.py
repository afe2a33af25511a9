"""Steps are A:B wherever recordings are asked about them; a step that is not there is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfcast.cli.trace.command import trace
from perfcast.errors import InputError
from recorded_traces import Recording

#: Microseconds of the host before each step's launch.
GAPS = {10: 50, 11: 60, 12: 50, 13: 200}


def recorded(folder: Path) -> Path:
    """Four steps of the host, each a gap and an operator that launches and awaits one kernel."""
    recording, at = Recording(), 0.0
    for number, gap in GAPS.items():
        recording.step(number, at, gap + 50)
        recording.operator("aten::mm", at + gap, 40)
        recording.call("cudaLaunchKernel", at + gap + 5, 5, number)
        recording.kernel("gemm", at + gap + 12, 10, number)
        recording.call("cudaStreamSynchronize", at + gap + 15, 10, 100 + number)
        at += gap + 50
    return recording.write(folder)


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(trace, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_overheads_of_some_steps_forecast_another(tmp_path: Path):
    path, profile = recorded(tmp_path), tmp_path / "host.json"
    run("overheads", path, "--steps", "11:12", "--output", profile)
    as_recorded = json.loads(run("forecast", path, "--steps", "13", "--json", "-"))
    forecast = json.loads(run("forecast", path, "--steps", "13", "--overheads", profile, "--json", "-"))
    assert as_recorded["step_seconds"] == pytest.approx(250e-6)
    # The gap of the others: 55 instead of 200 µs.
    assert forecast["step_seconds"] == pytest.approx(105e-6, rel=0.02)


@pytest.mark.parametrize(
    "command", [("overheads", "--output", "{folder}/o.json"), ("forecast",), ("chakra", "--out", "{folder}")]
)
@pytest.mark.parametrize(
    ("steps", "said"),
    [("3:5", "step 3 is not marked; marked steps: 10:13"), ("12:14", "step 14 is not marked")],
)
def test_steps_that_are_not_there_are_errors(tmp_path: Path, command: tuple[str, ...], steps: str, said: str):
    path = recorded(tmp_path)
    words = [word.format(folder=tmp_path) for word in command[1:]]
    with pytest.raises(InputError, match=said):
        run(command[0], path, *words, "--steps", steps)


@pytest.mark.parametrize("command", ["overheads", "forecast", "chakra"])
def test_what_is_no_range_of_steps_is_refused_in_the_same_words(tmp_path: Path, command: str):
    path = recorded(tmp_path)
    more = {"overheads": ["--output", str(tmp_path / "o.json")], "chakra": ["--out", str(tmp_path)]}
    result = CliRunner().invoke(trace, [command, str(path), *more.get(command, []), "--steps", "5:3"])
    said = result.output + str(result.exception)
    assert "'5:3' is no range of steps: write A:B, such as 3:5, or one number" in said
