"""The suite of kernels keeps the contract."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from small_tables import gemm_table, kernel_folder, permute_measured

from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.kernels.suite import validate_kernels
from perfcast.evidence.validate.result import TableResult, write_result
from perfcast.evidence.validate.row import is_skip_reason
from perfcast.evidence.validate.summary import score_rows, summarize

FIXED = {
    "suite", "table", "row", "device", "catalog_device", "operation", "predictor", "predicted_seconds",
    "predicted_seconds_low", "predicted_seconds_high", "measured_seconds", "provenance", "skipped",
}  # fmt: skip
PREDICTED = ("predicted_seconds", "predicted_seconds_low", "predicted_seconds_high", "provenance")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return kernel_folder(tmp_path / "kernels")


def rows_of(result: TableResult) -> list[dict[str, Any]]:
    return [row.to_json() for row in result.rows()]


def test_every_case_has_a_row_of_every_predictor_with_the_fixed_keys(folder: Path, weights: Path) -> None:
    rows = rows_of(validate_kernels([folder], weights=weights))
    assert len(rows) == 2 * (2 * 66 + 5 + 2)
    for row in rows:
        assert row.keys() >= FIXED
        assert row["suite"] == "kernels"
        assert row["skipped"] is None or is_skip_reason(row["skipped"])
        assert (row["skipped"] is None) == (row["predicted_seconds"] is not None)
    gemm = next(row for row in rows if row["table"] == "gemm_h100_sxm")
    assert gemm["framework"] in ("sglang", "trtllm", "vllm")
    assert gemm["device"] == "h100_sxm"
    assert gemm["catalog_device"] == "h100-sxm"
    assert "n_obs" not in gemm
    assert "vllm_ms" not in gemm
    assert gemm["predicted_seconds_low"] <= gemm["predicted_seconds"] <= gemm["predicted_seconds_high"]


def test_forecasts_do_not_know_what_was_measured(tmp_path: Path, weights: Path) -> None:
    measured = ["sglang_ms", "trtllm_ms", "vllm_ms", "n_obs", "min_ms", "max_ms"]
    told = []
    for name, frame in (("as is", gemm_table()), ("permuted", permute_measured(gemm_table(), measured))):
        place = tmp_path / name
        place.mkdir()
        frame.write_csv(place / "gemm_h100_sxm.csv")
        rows = rows_of(validate_kernels([place], weights=weights, max_rows=40))
        told.append(
            json.dumps([[row["row"], row["framework"], *(row[k] for k in PREDICTED)] for row in rows])
        )
    assert told[0] == told[1]


def test_a_model_without_weights_skips_its_rows(folder: Path, tmp_path: Path) -> None:
    rows = rows_of(validate_kernels([folder], ["learned", "li2020"], weights=tmp_path / "none"))
    reasons = {row["skipped"] for row in rows if row["table"].startswith("gemm")}
    assert reasons == {"no trained predictor"}


def test_without_the_framework_there_is_one_forecast_for_all_three(folder: Path, weights: Path) -> None:
    rows = rows_of(validate_kernels([folder], ["learned:blind"], weights=weights))
    assert {row["table"] for row in rows} == {"gemm_h100_sxm", "gemm_a100_sxm"}
    by_line: dict[Any, set[float]] = {}
    for row in rows:
        by_line.setdefault(row["row"], set()).add(round(row["predicted_seconds"], 15))
    assert {len(seconds) for seconds in by_line.values()} == {1}


def test_the_stream_is_json_and_its_summary_that_of_its_rows(folder: Path, weights: Path) -> None:
    result = validate_kernels([folder], weights=weights)
    file = io.StringIO()
    write_result(result, file)
    data = json.loads(file.getvalue())
    assert list(data) == ["suite", "protocol", "rows", "summary"]
    assert "all 139 cases" in data["protocol"]["sampling"]
    assert "240 rows" in " ".join(data["protocol"]["fitted_on"]["all rows"]["learned"])
    whole = next(e for e in data["summary"] if (e["predictor"], e["group"]) == ("learned", "all"))
    rows = [row for row in result.rows() if row.predictor == "learned"]
    (expected,) = summarize(score_rows(rows), ["all"])
    assert {key: whole[key] for key in expected} == pytest.approx(expected)


def test_a_doubtful_measurement_is_scored_and_named(tmp_path: Path, weights: Path) -> None:
    table = pl.DataFrame({"dtype": ["bfloat16"], "m": [8192], "n": [8192], "k": [8192], "sglang_ms": [0.01],
                          "trtllm_ms": [None], "vllm_ms": [None]})  # fmt: skip
    table.write_csv(tmp_path / "gemm_h100_sxm.csv")
    result = validate_kernels([tmp_path], ["learned"], weights=weights)
    (row,) = rows_of(result)
    assert row["quality"] == "above peak"
    assert row["relative_error"] is not None
    groups = {(e["group"], e["value"]): e["n"] for e in result.summary}
    assert groups["quality", "above peak"] == 1


def test_a_device_that_nothing_was_fitted_on_is_forecast(tmp_path: Path, weights: Path) -> None:
    gemm_table().write_csv(tmp_path / "gemm_b300_sxm.csv")
    rows = rows_of(validate_kernels([tmp_path], ["learned"], weights=weights))
    assert {(row["device"], row["catalog_device"]) for row in rows} == {("b300_sxm", "b300")}
    assert {row["provenance"] for row in rows} == {"extrapolated"}


def test_an_unknown_predictor_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UnknownNameError, match="learned"):
        validate_kernels([Path("nowhere")], ["learnt"])
