"""What the README and the examples say can be run as it stands."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from perfcast.cli.main import run

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_comparison_of_devices_prints_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "compare_devices.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        "rtx-4090",
        "a100-sxm-80gb",
        "h100-sxm",
        "mi300x",
        "b200",
    ]
    assert lines[1].split()[-1] == "no"
    assert lines[-1].split()[-1] == "yes"


def test_the_sharded_transformer_runs_as_one_rank_of_eight(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A small one: each rank has an eighth of the weights, of four bytes each, and of both moments."""
    text = (ROOT / "examples" / "fsdp_transformer.py").read_text(encoding="utf-8")
    sizes = "WIDTH, HEADS, LAYERS, WORDS, LENGTH = "
    small, count = re.subn(rf"^{sizes}.*$", f"{sizes}64, 4, 1, 128, 16", text, flags=re.MULTILINE)
    assert count == 1
    path = tmp_path / "fsdp_transformer.py"
    path.write_text(small, encoding="utf-8")
    asked = ["--device", "h100-sxm", "--world-size", "8", "--batch-size", "2", "--json", "-"]
    assert run(["memory", f"{path}:build", *asked]) == 0
    data = json.loads(capsys.readouterr().out)
    held = data["memory_bytes_by_category"]
    assert data["assumptions"][0].startswith("rank 0 of 8")
    assert held["parameter"] == 4 * data["parameter_count"] // 8
    assert held["optimizer_state"] == pytest.approx(2 * held["parameter"], rel=0.01)


def test_the_program_to_record_is_recorded_explained_and_forecast_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A small one."""
    text = (ROOT / "examples" / "train.py").read_text(encoding="utf-8")
    sizes = "BATCH_SIZE, LENGTH, WIDTH, NUM_STEPS = "
    small, count = re.subn(rf"^{sizes}.*$", f"{sizes}2, 4, 16, 9", text, flags=re.MULTILINE)
    assert count == 1
    path, folder = tmp_path / "train.py", tmp_path / "traces"
    path.write_text(small, encoding="utf-8")
    asked = ["--out", str(folder), "--skip", "1", "--steps", "1", "--timed", "0"]
    assert run(["trace", "record", *asked, "--", sys.executable, str(path)]) == 0
    recorded = str(folder / "rank0.kineto.json.gz")
    assert run(["trace", "explain", recorded]) == 0
    assert "shapes of arguments are those of one step" in capsys.readouterr().out
    assert run(["trace", "forecast", recorded, "--what-if", "speed:addmm=2"]) == 0
    assert "Speed-up" in capsys.readouterr().out


def documented_commands() -> list[str]:
    """Every line of README and docs that forecasts something with what a checkout has."""
    texts = (README, *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))))
    blocks = re.findall(r"```sh\n(.*?)```", "\n".join(texts), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines = [line for line in lines if re.match(r"perfcast (predict|memory|scale|search|serving) ", line)]
    needs_a_machine_or_file = (
        "path/to/",
        "neusight",
        "--output ",
        "--backend",
        "--largest",
        "--limits",
        "--launch",
        "--timeline",
        "--requests",
    )
    if find_spec("timm") is None:
        needs_a_machine_or_file += ("timm:",)
    return [line for line in lines if not any(word in line for word in needs_a_machine_or_file)]


@pytest.mark.parametrize("command", documented_commands())
def test_the_documented_commands_run_and_what_they_forecast_fits(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a parallel program's memory under ``predict`` nothing is known, so nothing is asked."""
    monkeypatch.chdir(ROOT)
    asked = shlex.split(command, comments=True)[1:]
    if "--html" in asked:
        asked[asked.index("--html") + 1] = str(tmp_path / "page.html")
    assert run([*asked, *(() if "--world-size" in asked else ("--require-fit",))]) == 0
