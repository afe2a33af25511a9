"""The whole way: a bench that stands in for a GPU, the command, and what is forecast afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.cli.main import run
from stand_in_bench import StandInBench

DEVICE = load_device("rtx-4090")


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("perfcast.measure.few.answer.FEW", 8)


def predicted(tiny: str, capsys: pytest.CaptureFixture[str], device: str = "rtx-4090") -> dict:
    capsys.readouterr()
    asked = ["predict", tiny, "--device", device, "--dtype", "bf16", "--batch-size", "64", "--compile"]
    assert run([*asked, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def device_seconds(forecast: dict) -> float:
    return sum(forecast["seconds_by_provenance"].values())


def test_measuring_moves_the_forecast_and_the_forecast_says_so(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(
        "perfcast.measure.few.answer.open_bench", lambda name: StandInBench(DEVICE, lambda case: 1.5)
    )
    before = predicted(tiny, capsys)
    file = tmp_path / "measured.json"
    assert run(["measure", "kernels", "--quick", "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "8 kernels measured on rtx-4090" in shown
    after = predicted(tiny, capsys)
    assert device_seconds(after) > device_seconds(before)
    assert "moved by 8 kernels measured on rtx-4090" in json.dumps(after)
    assert "moved by" not in json.dumps(before)

    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path / "elsewhere"))
    assert predicted(tiny, capsys) == before
    assert run(["measure", "kernels", "--from", str(file)]) == 0
    assert device_seconds(predicted(tiny, capsys)) == device_seconds(after)


def test_what_cannot_go_together_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["measure", "kernels", "--from", str(tmp_path / "x.json"), "--quick"]) == 2
    assert "takes no --quick" in capsys.readouterr().err
    assert run(["measure", "kernels", "--from", str(tmp_path / "x.json")]) == 2
    assert "x.json': no such file" in capsys.readouterr().err
