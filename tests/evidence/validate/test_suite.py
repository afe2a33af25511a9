"""The contract of the suites: rows, error tables, sampling."""

from __future__ import annotations

import io
import json

import pytest

from perfcast.evidence.validate.result import SuiteResult, write_result
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.sampling import sample
from perfcast.evidence.validate.summary import score_rows, summarize


def row(predicted: float | None, measured: float, skipped: str | None = None, number: int = 0) -> Row:
    return Row(
        suite="s", table="t", row=number, device="d", catalog_device=None, predictor="p",
        measured_seconds=measured,
        predicted_seconds=predicted, predicted_seconds_low=0.9 * predicted if predicted else None,
        predicted_seconds_high=1.15 * predicted if predicted else None, skipped=skipped,
        columns={"width": 3, "device": "hidden"},
    )  # fmt: skip


def test_the_summary_is_that_of_a_calculation_by_hand() -> None:
    rows = [row(1.1, 1.0), row(0.8, 1.0), row(3.0, 2.0), row(None, 1.0, "unknown device")]
    (summary,) = summarize(score_rows(rows), ["all"])
    assert (summary["n"], summary["skipped"]) == (3, 1)
    assert summary["mean_absolute_relative_error"] == pytest.approx(0.8 / 3)
    assert summary["median_absolute_relative_error"] == pytest.approx(0.2)
    assert summary["p90_absolute_relative_error"] == pytest.approx(0.44)
    assert summary["mean_relative_error"] == pytest.approx(0.4 / 3)
    assert summary["coverage"] == pytest.approx(1 / 3)


def test_a_summary_of_skipped_rows_alone_has_no_errors() -> None:
    (summary,) = summarize(score_rows([row(None, 1.0, "incomplete: tp")]), ["all"])
    assert summary["n"] == 0
    assert summary["coverage"] is None


def test_only_reasons_of_the_list_skip_a_row() -> None:
    with pytest.raises(ValueError, match="not a reason"):
        row(None, 1.0, "too hard")


def test_the_stream_is_the_json_of_the_contract() -> None:
    result = SuiteResult("s", {"machine": "m"}, (row(1.1, 1.0), row(None, 1.0, "unknown device")))
    file = io.StringIO()
    write_result(result, file)
    data = json.loads(file.getvalue())
    assert data["rows"] == json.loads(json.dumps(list(result.to_json_rows())))
    assert data["summary"] == json.loads(json.dumps(result.summary))
    assert list(data) == ["suite", "protocol", "rows", "summary"]
    assert data["rows"][0]["width"] == 3
    assert data["rows"][0]["device"] == "d"
    assert data["rows"][1]["skipped"] == "unknown device"


def test_sampling_is_fixed_and_even_over_strata() -> None:
    items = [("a", i) for i in range(100)] + [("b", i) for i in range(3)]
    first = sample(items, 20, str, lambda item: item[0])
    assert first == sample(items, 20, str, lambda item: item[0])
    assert len(first) == 20
    assert sum(item[0] == "b" for item in first) == 3
    assert sample(items, 1000, str) == items
