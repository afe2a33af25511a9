"""``perfcast gpu-check`` as a person meets it; nothing is measured here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from perfcast.cli.gpu_check import gpu_check
from perfcast.errors import CalibrationError, IncompleteError, InputError
from perfcast.evidence.gpu_check import run
from perfcast.evidence.gpu_check.result import CheckFile, CheckRow, PartResult

DONE = PartResult(
    name="model: gpt2", status="done", wall_seconds=40.0,
    rows=(
        CheckRow(what="gpt2: max_memory_reserved", unit="B", measured=10.0 * 2**30, forecast=11.0 * 2**30),
        CheckRow(what="gpt2: step", unit="s", measured=0.1, forecast=0.08, low=0.07, high=0.12),
    ),
)  # fmt: skip
FAILED = PartResult(name="replay", status="failed", reason="was killed by SIGKILL", log=("last words",))
LEFT_OUT = PartResult(name="collectives", status="left_out", reason="one device: collectives need two")


def check(*parts: PartResult) -> CheckFile:
    machine = {"perfcast": "1", "packages": {"torch": "2.13"}, "devices": [{"name": "NVIDIA H100"}]}
    return CheckFile(device="cuda", machine=machine, budget_seconds=1200.0, started_at="2026", parts=parts)


def test_a_file_made_elsewhere_is_shown_with_forecast_measured_error_and_interval(tmp_path: Path):
    path = tmp_path / "check.json"
    path.write_text(json.dumps(check(DONE, FAILED, LEFT_OUT).to_json()))
    result = CliRunner().invoke(gpu_check, ["--from", str(path), "--json", str(tmp_path / "again.json")])
    assert result.exit_code == 0, result.exception
    for words in ("NVIDIA H100", "11.0 GiB  10.0 GiB  +10.0 %", "80.0 ms", "-20.0 %  yes", "by SIGKILL",
                  "one device: collectives need two", "1 of 1 measured figures"):  # fmt: skip
        assert words in result.output
    assert json.loads((tmp_path / "again.json").read_text())["parts"][0]["rows"][1]["is_inside"] is True


@pytest.mark.parametrize(("parts", "is_whole"), [((DONE, LEFT_OUT), True), ((DONE, FAILED), False)])
def test_the_exit_code_says_whether_all_parts_are_done(
    parts: tuple[PartResult, ...], is_whole: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(run, "check_device", lambda request, on_progress: check(*parts))
    result = CliRunner().invoke(gpu_check, ["--output", str(tmp_path / "c.json")])
    assert "gpt2: step" in result.output
    if is_whole:
        assert result.exit_code == 0
    else:
        assert isinstance(result.exception, IncompleteError)
        assert "1 of 2 parts are not done: replay" in str(result.exception)


def test_options_that_mean_nothing_beside_a_file_are_refused(tmp_path: Path):
    error = CliRunner().invoke(gpu_check, ["--from", "x.json", "--restart"]).exception
    assert isinstance(error, InputError)
    assert "--from shows a file" in str(error)


@pytest.mark.parametrize(
    "broken",
    ["{}", '{"format": "perfcast-gpu-check", "version": 1}', "[]",
     json.dumps({**check(DONE).to_json(), "parts": [{"name": 3}]}),
     json.dumps({**check(DONE).to_json(), "parts": [{**DONE.to_json(), "status": "splendid"}]})],
)  # fmt: skip
def test_a_broken_file_is_one_message(broken: str, tmp_path: Path):
    path = tmp_path / "c.json"
    path.write_text(broken)
    error = CliRunner().invoke(gpu_check, ["--from", str(path)]).exception
    assert isinstance(error, CalibrationError)
    assert str(path) in str(error)
