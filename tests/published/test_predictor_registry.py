"""Predictors by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.train.published.registry import load_trainer
from perfcast.published.nets.store import predictor_folder, read_record, write_predictor
from perfcast.published.registry import (
    PREDICTORS,
    find_entry,
    load_cost_model,
    load_predictor,
    training_command,
)


def test_a_misspelt_predictor_is_an_error_that_names_the_close_one():
    with pytest.raises(UnknownNameError, match="neusight"):
        find_entry("neusigth")


@pytest.mark.parametrize("name", PREDICTORS)
def test_each_entry_points_to_functions_that_exist(name: str):
    assert find_entry(name).description
    if training_command(name):
        assert callable(load_trainer(name))


def test_the_roofline_has_nothing_to_train(tmp_path: Path):
    assert training_command("roofline") == ""
    assert load_predictor("roofline", tmp_path).name == "roofline"
    with pytest.raises(InputError, match="nothing to train"):
        load_trainer("roofline")


def test_a_predictor_that_is_not_trained_is_a_cost_model_that_names_its_training(tmp_path: Path):
    with pytest.raises(InputError, match="single kernels"):
        load_cost_model("roofline", tmp_path)
    for name in filter(training_command, PREDICTORS):
        with pytest.raises(InputError, match=f"perfcast train {name} --data DIR"):
            load_cost_model(name, tmp_path)


def test_folders_tell_protocols_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path))
    assert predictor_folder("neusight", 0) == tmp_path / "predictors" / "neusight-seed0"
    assert predictor_folder("neusight", 2, "amd").name == "neusight-amd-seed2"
    assert (
        predictor_folder("neusight", 0, left_out=("t4", "p4")).name == "neusight-seed0-without-p4-without-t4"
    )


def test_a_folder_with_another_predictor_is_not_mistaken(tmp_path: Path):
    write_predictor(tmp_path, "habitat", {}, {"nets": {}})
    assert read_record(tmp_path, "habitat")["nets"] == {}
    with pytest.raises(InputError, match="another predictor"):
        read_record(tmp_path, "neusight")


def test_a_broken_record_is_a_clear_error(tmp_path: Path):
    (tmp_path / "predictor.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="not valid JSON"):
        read_record(tmp_path, "neusight")
