"""``perfcast memory`` as a person meets it: the largest size, the allocator, an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perfcast.cli.main import run
from perfcast.core.forecast.largest import Probe
from perfcast.prediction.one_device.bisection import Bisection
from perfcast.report.answers import schema_of

TWIN = """
import torch
from torch import nn

def build(batch_size=2):
    return nn.Linear(30000, 30000, bias=False), torch.zeros(batch_size, 30000)
"""


@pytest.fixture
def twin(tmp_path: Path) -> str:
    path = tmp_path / "twin.py"
    path.write_text(TWIN, encoding="utf-8")
    return f"{path}:build"


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run([*arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, _ = called(capsys, "memory", *arguments, "--json", "-")
    assert code == 0
    data: dict[str, Any] = json.loads(out)
    jsonschema.validate(data, schema_of("memory"))
    return data


def test_the_largest_batch_fits_and_the_next_was_seen_not_to(
    twin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(capsys, twin, "--device", "t4", "--mode", "prefill", "--largest-batch")
    largest = data["largest"]
    by_size = {probe["size"]: probe["fits"] for probe in largest["probes"]}
    assert by_size[largest["value"]] is True
    assert by_size[largest["value"] + 1] is False
    assert (data["batch_size"], data["fits"]) == (largest["value"], True)


def test_where_nothing_fits_that_is_the_answer(twin: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = written(capsys, twin, "--device", "t4", "--dtype", "fp64", "--largest-batch")
    assert (data["largest"]["value"], data["fits"]) == (None, False)
    code, out, _ = called(capsys, "memory", twin, "--device", "t4", "--dtype", "fp64", "--largest-batch")
    assert code == 0
    assert "Nothing fits: batch size 1 needs" in out


def test_an_interrupted_search_reports_the_best_so_far(
    twin: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Bisection, second: int, on_probe: Any) -> None:
        self.probes[3] = Probe(3, 1, 1, True)
        raise KeyboardInterrupt

    monkeypatch.setattr(Bisection, "run", interrupted)
    code, out, _ = called(capsys, "memory", twin, "--device", "t4", "--mode", "prefill", "--largest-batch")
    assert code == 0
    assert "Interrupted; the largest known to fit is batch size 3" in out


def test_an_interruption_before_any_size_is_known_is_one(
    twin: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Bisection, second: int, on_probe: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Bisection, "run", interrupted)
    assert called(capsys, "memory", twin, "--device", "t4", "--largest-batch")[0] == 130


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--largest-batch", "--largest-sequence"], "choose one"),
        (["--largest-sequence"], "does not take sequence_length"),
        (["--allocator", "max_split_size:1"], "max_split_size_mb"),
    ],
)
def test_what_cannot_be_asked_exits_with_2(
    twin: str, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    code, out, err = called(capsys, "memory", twin, "--device", "t4", *options)
    assert (code, out) == (2, "")
    assert says in err


def test_the_settings_of_the_allocator_are_in_the_result(
    twin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = "max_split_size_mb:128,expandable_segments:True"
    data = written(capsys, twin, "--device", "t4", "--mode", "prefill", "--allocator", settings)
    assert data["reserved"]["settings"] == settings
    assert any(settings in assumption for assumption in data["assumptions"])


def test_the_page_is_written(twin: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "memory.html"
    assert called(capsys, "memory", twin, "--device", "t4", "--html", str(path))[0] == 0
    assert "Alive at the peak" in path.read_text(encoding="utf-8")
