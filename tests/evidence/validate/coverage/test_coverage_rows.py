"""Rows of other suites become scores with a subject's labels."""

from perfcast.evidence.validate.coverage.rows import scores_of_rows
from perfcast.evidence.validate.row import Row


def a_row(predictor="learned", skipped=None, measured=1.0):
    return Row(
        suite="vision",
        table="steps",
        row=0,
        device="T4",
        catalog_device="t4",
        predictor=predictor,
        columns={},
        predicted_seconds=1.0,
        predicted_seconds_low=0.5,
        predicted_seconds_high=2.0,
        measured_seconds=measured,
        skipped=skipped,
    )


def test_rows_of_one_predictor_carry_the_subjects_labels_and_skipped_ones_are_not_judged():
    rows = [a_row(), a_row("roofline"), a_row(skipped="unknown device"), a_row(measured=3.0)]
    (found,) = scores_of_rows("learned", rows, {"device": lambda row: row.device})
    assert found.labels["device"].tolist() == ["T4"] * 3
    assert found.covered.tolist()[0] == 1.0
    assert found.covered[1] != found.covered[1]
    assert found.covered[2] == 0.0


def test_no_rows_of_a_predictor_are_no_scores():
    assert scores_of_rows("learned", [a_row("roofline")], {"device": lambda row: row.device}) == []
