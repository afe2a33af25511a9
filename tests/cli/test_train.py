"""``perfcast train`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.cli import train as train_command
from perfcast.cli.main import run
from perfcast.published.nets import larger as larger_predictors
from published.study_tables import write_study_tables


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_tables(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def narrow_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(larger_predictors, "WIDTH", 16)


@pytest.fixture(autouse=True)
def user_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path))
    return tmp_path


def test_a_training_lands_in_the_users_data_folder(data: Path, user_folder: Path, capsys):
    assert run(["train", "mlp8", "--data", str(data), "--epochs", "1", "--seed", "0"]) == 0
    record = json.loads((user_folder / "predictors" / "mlp8-seed0" / "predictor.json").read_text())
    out, err = capsys.readouterr()
    assert record["nets"]["bmm"]["num_epochs"] == 1
    assert "bmm: validation error" in out
    assert "bmm: epoch 1/1" in err


def test_devices_are_left_out_by_any_of_their_names(data: Path, user_folder: Path):
    arguments = [
        "train",
        "li2020",
        "--data",
        str(data),
        "--leave-out",
        "Tesla T4",
        "--leave-out",
        "p100-pcie",
    ]
    assert run(arguments) == 0
    folder = user_folder / "predictors" / "li2020-seed0-without-p100-pcie-without-t4"
    record = json.loads((folder / "predictor.json").read_text())
    assert record["lines"]["bmm"].keys() == {"v100-pcie-32gb"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "neusigth", "--data", "."], "Did you mean neusight"),
        (["train", "roofline", "--data", "."], "nothing to train"),
        (["train", "li2020", "--data", "nowhere"], "--data"),
        (["train", "li2020", "--data", ".", "--leave-out", "t5"], "unknown device"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str, capsys):
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_an_interrupted_training_says_how_to_go_on(data: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_command._Reporter, "_report", stop)
    command = ["train", "mlp8", "--data", str(data), "--epochs", "2"]
    assert run(command) == 130
    assert "the same command goes on" in capsys.readouterr().err
    monkeypatch.undo()
