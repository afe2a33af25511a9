"""``validate coverage`` counts what lies inside an interval, and how wide that is."""

import io

import numpy as np
import pytest
from rich.console import Console

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.validate.coverage.suite import names_of, summarize_coverage, validate_coverage
from perfcast.evidence.validate.summary import Scores
from perfcast.report.documents.evidence.coverage import coverage_document
from perfcast.report.terminal import print_document


def scores(low, high, measured, devices):
    n = len(measured)
    return Scores(
        predictor="ours",
        labels={"device": np.array(devices, dtype=object)},
        predicted=np.ones(n),
        low=np.array(low, dtype=float),
        high=np.array(high, dtype=float),
        measured=np.array(measured, dtype=float),
        skipped=np.zeros(n, dtype=bool),
    )


PART = scores([0.5, 0.5, 0.8, np.nan], [2.0, 2.0, 1.2, np.nan], [1.0, 3.0, 1.1, 1.0], ["a", "a", "b", "b"])


def test_of_judged_rows_the_share_inside_and_the_median_width_are_told():
    whole = summarize_coverage("kernels", [PART])[0]
    assert (whole["group"], whole["n"], whole["coverage"]) == ("all", 3, 2 / 3)
    assert whole["median_width"] == 4.0


def test_each_value_of_a_dimension_is_a_group_and_a_row_without_an_interval_is_in_none():
    found = {e["value"]: e for e in summarize_coverage("kernels", [PART]) if e["group"] == "device"}
    assert (found["a"]["n"], found["a"]["coverage"], found["b"]["n"]) == (2, 0.5, 1)
    assert found["b"]["median_width"] == pytest.approx(1.5)


def test_few_rows_are_called_neither_honest_nor_not():
    assert summarize_coverage("kernels", [PART])[0]["is_honest"] is None
    many = scores([0.5] * 20, [2.0] * 20, [1.0] * 18 + [3.0] * 2, ["a"] * 20)
    assert summarize_coverage("kernels", [many])[0]["is_honest"] is True
    narrow = scores([0.5] * 20, [2.0] * 20, [1.0] * 10 + [3.0] * 10, ["a"] * 20)
    assert summarize_coverage("kernels", [narrow])[0]["is_honest"] is False


def test_the_table_says_which_intervals_are_too_narrow():
    summary = summarize_coverage("kernels", [scores([0.5] * 20, [2.0] * 20, [3.0] * 20, ["h100"] * 20)])
    out = io.StringIO()
    print_document(
        coverage_document(summary, {"left_out": {"kernels": "each die"}}), Console(file=out, width=100)
    )
    text = out.getvalue()
    for words in ("too narrow", "h100", "4.00 ×", "each die"):
        assert words in text


def test_unknown_subjects_and_folders_without_measurements_are_refused(tmp_path):
    with pytest.raises(UnknownNameError, match=r"unknown subject 'peak memroy'.*peak memory"):
        validate_coverage([tmp_path], ["peak memroy"])
    with pytest.raises(InputError, match="no measurements of peak memory in"):
        validate_coverage([tmp_path], ["peak memory"])
    assert len(set(names_of())) == len(names_of())
