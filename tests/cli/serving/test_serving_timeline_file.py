"""``perfcast serving --timeline`` shows the steps of a window."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.cli.main import run

WHAT = (
    "serving",
    "llama3-8b",
    "--cost-model",
    "roofline",
    "--device",
    "h100-sxm",
    "--num-requests",
    "30",
    "--input-length",
    "256",
    "--output-length",
    "8",
    "--concurrency",
    "4",
)


def test_steps_lie_in_the_window_and_requests_beside_them(tmp_path: Path):
    path = tmp_path / "trace.json"
    assert (
        run([*WHAT, "--plan", "tp=1", "--replicas", "2", "--timeline", str(path), "--window", "0.05:0.1"])
        == 0
    )
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["engine 0", "engine 1", "requests"]
    steps = [event for event in events if event["ph"] == "X" and event["pid"] in (0, 1)]
    assert steps
    assert all(each["ts"] < 0.1e6 and each["ts"] + each["dur"] > 0.05e6 for each in steps)
    assert any(event["ph"] == "X" and event["cat"] == "is written" for event in events)


def test_without_a_window_the_first_seconds_are_shown(tmp_path: Path):
    path = tmp_path / "trace.json"
    assert run([*WHAT, "--timeline", str(path)]) == 0
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert min(event["ts"] for event in events if event["ph"] == "X") == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--window", "0:1"), "--window: of --timeline FILE"),
        (("--window", "3:1", "--timeline", "{file}"), "--window 3:1: FROM:TO in seconds"),
        (("--window", "9", "--timeline", "{file}"), "--window 9: FROM:TO in seconds"),
        (("--window", "900:901", "--timeline", "{file}"), "no step lies in the window"),
        (("--timeline", "{file}", "--sweep", "replicas=1,2"), "--timeline: of one deployment"),
    ],
)
def test_a_timeline_that_cannot_be_is_one_clear_error(
    options: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given = [option.format(file=tmp_path / "trace.json") for option in options]
    assert run([*WHAT, *given]) == 2
    assert says in capsys.readouterr().err
