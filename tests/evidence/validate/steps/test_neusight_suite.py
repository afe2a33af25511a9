"""The suite of the NeuSight study: kernels, whole-model steps, and what the study itself predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from small_tables import permute_measured, step_table, study_folder

from perfcast.catalogs.devices import load_device
from perfcast.catalogs.models import load_models
from perfcast.errors import InputError
from perfcast.evidence.validate.kernels.trained import STUDY_DEVICES, find_trained, learned_from
from perfcast.evidence.validate.protocol import describe_published
from perfcast.evidence.validate.result import TableResult
from perfcast.evidence.validate.steps.cases import find_study_model
from perfcast.evidence.validate.steps.suite import validate_neusight
from perfcast.prediction import Request, build_graph
from perfcast.published.nets.store import predictor_folder, write_predictor

MEASURED = ("latency_ms", "kernel_name", "grid_x")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return study_folder(tmp_path / "study")


def rows_of(result: TableResult, **wanted: Any) -> list[dict[str, Any]]:
    rows = [row.to_json() for row in result.rows()]
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def test_kernels_are_called_by_the_studys_names(folder: Path, weights: Path) -> None:
    result = validate_neusight([folder], ["learned", "roofline"], weights=weights)
    kernels = [row for row in rows_of(result, predictor="learned") if row["table"] != "steps"]
    assert {(row["table"], row["operation"]) for row in kernels} == {
        ("linear_test", "linear"),
        ("softmax_test", "softmax"),
    }
    assert {row["dtype"] for row in kernels} == {"fp32"}
    assert all(row["predicted_seconds"] for row in kernels)
    assert not kernels[0].keys() & {"kernel_name", "grid_x", "latency_ms"}


def test_steps_say_what_is_skipped_and_why(folder: Path, weights: Path) -> None:
    result = validate_neusight([folder], ["learned"], weights=weights)
    steps = rows_of(result, table="steps", predictor="learned", device="Tesla_T4")
    reasons = [None, None, None, "unsupported plan", "unsupported operation", "incomplete: batch_size"]
    assert [row["skipped"] for row in steps] == reasons
    assert [row["row"] for row in steps] == [0, 1, 2, 3, 4, 5]
    assert steps[0]["catalog_model"] == "neusight-opt"
    assert steps[0]["operation"] == "step"


def test_a_training_step_is_a_forward_and_a_backward(folder: Path, weights: Path) -> None:
    result = validate_neusight([folder], ["learned"], weights=weights)
    inference, train, fused = rows_of(result, table="steps", predictor="learned", device="Tesla_T4")[:3]
    whole = train["predicted_forward_seconds"] + train["predicted_backward_seconds"]
    assert whole == pytest.approx(train["predicted_seconds"])
    assert train["measured_forward_seconds"] == pytest.approx(3e-3)
    assert train["measured_backward_seconds"] == pytest.approx(6e-3)
    assert inference["predicted_backward_seconds"] is None
    assert inference["predicted_seconds"] < train["predicted_seconds"]
    assert fused["predicted_seconds"] < inference["predicted_seconds"]
    assert inference["predicted_seconds_low"] < inference["predicted_seconds"]
    assert inference["predicted_seconds"] < inference["predicted_seconds_high"]


def test_printed_predictions_are_predictors_of_their_own(folder: Path, weights: Path) -> None:
    result = validate_neusight([folder], ["roofline"], weights=weights)
    printed = rows_of(result, predictor="published:neusight", device="NVIDIA_L4")
    assert [row["skipped"] for row in printed] == [None] * 5 + ["incomplete: batch_size"]
    assert printed[0]["relative_error"] == pytest.approx(1 / 3)
    empty = rows_of(result, predictor="published:li2020")
    assert {row["skipped"] for row in empty} == {"incomplete: micro_predicted_ms", "incomplete: batch_size"}
    assert not rows_of(result, predictor="published:habitat")


def test_step_forecasts_do_not_know_what_was_measured(tmp_path: Path, weights: Path) -> None:
    told = []
    steps = step_table()
    permuted = permute_measured(steps, ["step_ms", "forward_ms", "backward_ms"])
    for name, frame in (("as is", steps), ("permuted", permuted)):
        place = tmp_path / name
        place.mkdir()
        frame.write_csv(place / "steps.csv")
        result = validate_neusight([place], ["learned", "roofline"], weights=weights)
        forecasts = [row for row in rows_of(result) if not row["predictor"].startswith("published")]
        keys = ("row", "predictor", "predicted_seconds", "predicted_seconds_low", "predicted_seconds_high",
                "predicted_forward_seconds", "predicted_backward_seconds", "skipped")  # fmt: skip
        told.append(json.dumps([[row[key] for key in keys] for row in forecasts]))
    assert told[0] == told[1]


def test_each_step_is_captured_once_for_all_devices_and_predictors(folder: Path, weights: Path) -> None:
    said: list[str] = []
    validate_neusight([folder], ["learned", "roofline"], weights=weights, say=said.append)
    assert sum(text.startswith("capturing") for text in said) == 2


def test_nothing_of_an_eager_step_in_fp32_depends_on_the_device() -> None:
    request = Request(model="neusight-opt", mode="prefill", batch_size=1, sequence_length=16, dtype="fp32",
                      attention="eager", optimizer="none")  # fmt: skip
    old, new = (build_graph(request, load_device(name))[0] for name in ("p4", "h100-sxm"))
    assert old.operations == new.operations
    assert old.nodes == new.nodes


def test_predictors_that_nobody_trained_say_so(
    folder: Path, weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path / "empty"))
    result = validate_neusight([folder], ["neusight", "habitat", "mlp8"], weights=weights)
    kernels = [row for row in rows_of(result) if row["table"] != "steps"]
    assert {row["skipped"] for row in kernels} == {"no trained predictor"}
    assert {row["predictor"] for row in kernels} == {"neusight", "habitat"}
    steps = rows_of(result, table="steps", predictor="neusight")
    assert steps[0]["skipped"] == "no trained predictor"


def test_devices_and_models_are_told_apart_as_the_study_does(folder: Path, weights: Path) -> None:
    result = validate_neusight([folder], ["learned"], weights=weights)
    groups = {(e["group"], e["value"]) for e in result.summary if e["predictor"] == "learned"}
    assert ("distribution", "in distribution") in groups
    assert ("distribution", "unseen device") in groups
    assert ("model, mode", "opt, train") in groups
    assert ("part, device", "backward, Tesla_T4") in groups
    assert ("paired with published:neusight", "eager, train") in groups


def test_a_published_predictor_must_not_have_learned_from_the_die(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path))
    volta, ada = (load_device(name).die for name in ("v100-pcie-32gb", "l4"))
    whole, without = (predictor_folder("neusight", 0, left_out=out) for out in ((), ("v100-pcie-32gb",)))
    for folder in (whole, without):
        folder.mkdir(parents=True)
    write_predictor(whole, "neusight", {}, {"left_out": []})
    assert find_trained("neusight", "nvidia", {ada}) == whole
    assert find_trained("neusight", "nvidia", {volta}) is None
    write_predictor(without, "neusight", {}, {"left_out": ["v100-pcie-32gb"]})
    assert find_trained("neusight", "nvidia", {volta}) == without
    assert find_trained("neusight", "nvidia") == whole
    assert find_trained("neusight", "amd") is None
    assert learned_from({"left_out": ["mi100"]}, "amd") == ["mi210"]


def test_every_device_of_the_study_is_in_the_catalog() -> None:
    assert {load_device(name).name for name in STUDY_DEVICES} == STUDY_DEVICES


def test_models_are_found_by_their_files_name_and_never_guessed() -> None:
    assert find_study_model("gpt3_27") == "neusight-gpt3-2.7b"
    assert find_study_model("switchxl4") == "neusight-switch-xl-4"
    assert find_study_model("switch4") is None
    assert find_study_model("gpt2") is None
    assert "gpt2" in load_models()


def test_training_tables_are_read_on_request_alone(tmp_path: Path, weights: Path) -> None:
    study = study_folder(tmp_path / "study")
    (study / "linear_test.parquet").rename(tmp_path / "matmul_train.parquet")
    with pytest.raises(InputError, match="--all-tables"):
        validate_neusight([tmp_path / "matmul_train.parquet"], ["learned"], weights=weights)
    result = validate_neusight(
        [tmp_path / "matmul_train.parquet"], ["learned"], weights=weights, all_tables=True
    )
    assert len(rows_of(result)) == 8


def test_a_step_that_no_model_can_take_is_no_forecast(tmp_path: Path, weights: Path) -> None:
    too_long = step_table(["Tesla T4"]).head(1).with_columns(sequence_length=pl.lit(10**6))
    too_long.write_csv(tmp_path / "steps.csv")
    (row,) = rows_of(validate_neusight([tmp_path], ["learned"], weights=weights), predictor="learned")
    assert row["skipped"] == "unsupported operation"


def test_kernel_forecasts_do_not_know_what_a_profiler_saw(tmp_path: Path, weights: Path) -> None:
    told = []
    frame = pl.read_parquet(study_folder(tmp_path / "study") / "linear_test.parquet")
    for name, table in (("as is", frame), ("permuted", permute_measured(frame, list(MEASURED)))):
        place = tmp_path / name
        place.mkdir()
        table.write_parquet(place / "linear_test.parquet")
        rows = rows_of(validate_neusight([place], ["learned", "roofline"], weights=weights))
        told.append(json.dumps([[row["row"], row["predictor"], row["predicted_seconds"]] for row in rows]))
    assert told[0] == told[1]


def test_the_studys_table_is_of_eager_steps_with_each_of_its_forecasts(tmp_path: Path) -> None:
    columns = {f"{name}_predicted_ms": 4.0 for name in ("neusight", "habitat", "micro", "roofline")}
    steps = step_table().with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    lacking = pl.col("device").eq("NVIDIA L4") & pl.col("mode").eq("train")
    steps.with_columns(
        habitat_predicted_ms=pl.when(lacking).then(None).otherwise(pl.col("habitat_predicted_ms"))
    ).write_csv(tmp_path / "steps.csv")
    result = validate_neusight([tmp_path], ["roofline"], study=True)
    found = {(row["device"], row["mode"]) for row in rows_of(result, predictor="roofline")}
    assert found == {("Tesla_T4", "inference"), ("Tesla_T4", "train"), ("NVIDIA_L4", "inference")}
    groups = {e["value"]: e["n"] for e in result.summary if e["group"] == "mode, distribution"}
    assert groups == {
        "inference, in distribution": 1, "inference, unseen device": 1, "train, in distribution": 1,
    }  # fmt: skip


def test_a_folder_without_such_steps_is_an_error(tmp_path: Path) -> None:
    step_table().write_csv(tmp_path / "steps.csv")
    with pytest.raises(InputError, match="no row of steps"):
        validate_neusight([tmp_path], ["roofline"], study=True)


def test_what_a_predictor_was_trained_for_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path))
    nets = {"linear": {"num_epochs": 100}, "bmm": {"num_epochs": 40}}
    folder = predictor_folder("neusight", 0)
    folder.mkdir(parents=True)
    write_predictor(folder, "neusight", {}, {"nets": nets, "devices": ["t4"]})
    text = describe_published("neusight")
    assert "nvidia: learned from t4, seed 0, epochs: linear 100, bmm 40" in text
    assert "amd: not trained" in text
