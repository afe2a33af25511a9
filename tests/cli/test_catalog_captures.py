"""``perfcast catalog captures`` says what is kept, and clears it."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.cli.main import run
from perfcast.core.captured import CapturedStep, StepSizes
from perfcast.core.graph import Graph
from perfcast.workload.kept.store import Captures


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFCAST_CACHE", str(tmp_path))
    return tmp_path / "captures"


def test_captures_are_counted_and_cleared(folder: Path, capsys: pytest.CaptureFixture[str]):
    for key in ("one", "two"):
        Captures(folder).step(key, lambda: CapturedStep(Graph((), (), (), ()), StepSizes()))
    said = []
    for option in ([], ["--clear"], []):
        assert run(["catalog", "captures", *option]) == 0
        said.append(capsys.readouterr().out)
    assert said[0].startswith("2 captured steps, ")
    assert f"kept in {folder}" in said[0]
    assert "removed from" in said[1]
    assert said[2].startswith("0 captured steps, ")


def test_a_folder_that_is_switched_off_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PERFCAST_CACHE", "off")
    assert run(["catalog", "captures"]) == 0
    assert "in memory alone" in capsys.readouterr().out
