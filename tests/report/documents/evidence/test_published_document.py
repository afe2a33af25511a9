"""Published runs in a terminal."""

from perfcast.report.documents.evidence.validation import published_document
from rendered import text_of

CHOICE = {
    "predictor": "closed_form", "group": "choice of plan", "value": "all", "n": 117,
    "share_within_15_percent": 0.88, "share_best_in_first_five": 0.966, "median_loss": 0.0,
}  # fmt: skip


def printed(*entries: dict[str, object]) -> str:
    return text_of(published_document(entries), 100)


def test_choices_stand_side_by_side_in_a_table():
    text = printed(CHOICE, {**CHOICE, "predictor": "searcher_3d", "share_within_15_percent": 0.274})
    assert "Choice of plan among the measured ones of a job" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("all")]
    assert rows[0] == ["all", "closed_form", "117", "88.0", "%", "96.6", "%", "0.0", "%"]
    assert rows[1][1:5] == ["searcher_3d", "117", "27.4", "%"]


def test_without_groups_of_plans_there_is_no_table():
    assert "Choice of plan" not in printed()
