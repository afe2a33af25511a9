"""Error tables in columns say what error tables of rows say."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.evidence.validate.summary import Scores, summarize


def scores(predictor: str = "p") -> Scores:
    return Scores(
        predictor=predictor,
        labels={"device": np.array(["a", "a", "b", ""], dtype=object),
                "dtype": np.array(["x", "y", "x", "x"], dtype=object)},
        predicted=np.array([1.1, 0.8, 3.0, np.nan]),
        low=np.array([1.0, 0.7, 2.9, np.nan]),
        high=np.array([1.2, 0.9, 3.1, np.nan]),
        measured=np.array([1.0, 1.0, 2.0, 1.0]),
        skipped=np.array([False, False, False, True]),
    )  # fmt: skip


def test_the_figures_are_those_of_a_calculation_by_hand() -> None:
    (entry,) = summarize([scores()], ["all"])
    assert (entry["n"], entry["skipped"]) == (3, 1)
    assert entry["mean_absolute_relative_error"] == pytest.approx(0.8 / 3)
    assert entry["median_absolute_relative_error"] == pytest.approx(0.2)
    assert entry["p90_absolute_relative_error"] == pytest.approx(0.44)
    assert entry["mean_relative_error"] == pytest.approx(0.4 / 3)
    assert entry["coverage"] == pytest.approx(1 / 3)


def test_rows_without_a_label_are_in_none_of_its_groups() -> None:
    entries = summarize([scores()], ["device", "device, dtype"])
    assert [(e["group"], e["value"], e["n"]) for e in entries] == [
        ("device", "a", 2), ("device", "b", 1),
        ("device, dtype", "a, x", 1), ("device, dtype", "a, y", 1), ("device, dtype", "b, x", 1),
    ]  # fmt: skip


def test_sizes_are_decades_of_the_measured_time() -> None:
    entries = summarize([scores()], ["size"])
    assert [(e["value"], e["n"], e["skipped"]) for e in entries] == [("1e0 s", 3, 1)]


def test_parts_of_one_predictor_are_one_group() -> None:
    entries = summarize([scores(), scores(), scores("q")], ["all"])
    assert [(e["predictor"], e["n"]) for e in entries] == [("p", 6), ("q", 3)]
