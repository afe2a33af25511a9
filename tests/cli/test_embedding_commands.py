"""``perfcast train embedding`` and ``validate embedding``: a few lookups, really measured and fitted to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.cli.main import run
from perfcast.evidence.train.embedding import fit
from perfcast.measure.embedding import store as embedding_store
from perfcast.measure.embedding.cases import design_cases


@pytest.fixture(autouse=True)
def user_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two cases of each group that read least, and a short fit."""
    few = {
        group: tuple(sorted(cases, key=lambda case: case.read_bytes)[:2])
        for group, cases in design_cases(num_fit=60).items()
    }
    monkeypatch.setattr(embedding_store, "design_cases", lambda: few)
    monkeypatch.setattr(fit, "_STEPS", 20)
    monkeypatch.setattr(fit, "_LEAST_CASES", 2)


def test_lookups_are_measured_fitted_to_and_scored(user_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["train", "embedding", "--passes", "1"]) == 0
    out, err = capsys.readouterr()
    assert "sgd: fitted to 2 cases; spread on cases left out: forward" in out
    assert "measured 16 of 16 lookups" in err
    assert json.loads((user_folder / "embedding_cpu.json").read_text())["record"]["num_cases"]["sgd"] == 2

    path = user_folder / "scores.json"
    assert run(["validate", "embedding", "--data", str(user_folder), "--json", str(path)]) == 0
    assert "GMAE" in capsys.readouterr().out
    assert json.loads(path.read_text())["suite"] == "embedding"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "embedding"), "measure some: perfcast train embedding --passes 2"),
        (("validate", "embedding"), "measure some: perfcast train embedding --passes 2"),
        (("train", "embedding", "--epochs", "3"), "no --leave-out, no --epochs"),
        (("train", "embedding", "--data", "a", "--data", "b"), "--data is given 2 times"),
        (("train", "embedding", "--output", "/nowhere/at/all.json"), "does not exist"),
        (("train", "learned"), "--data DIR"),
        (("train", "neusight", "--data", ".", "--passes", "1"), "--passes measures embedding lookups"),
        (("validate", "embedding", "--leave-out", "t4"), "no --leave-out"),
        (("validate", "embedding", "--predictor", "magic"), "unknown predictor 'magic'"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]):
    assert run([*arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
