"""Rows of other suites as scores of a subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfcast.evidence.validate.coverage.subject import Dimension
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.summary import Scores, score_figures

Label = Callable[[Row], str]


def scores_of_rows(predictor: str, rows: Sequence[Row], labels: dict[Dimension, Label]) -> list[Scores]:
    """Rows of one predictor with the labels of a subject; none for no rows."""
    mine = [row for row in rows if row.predictor == predictor]
    if not mine:
        return []
    figures = [
        (r.predicted_seconds, r.predicted_seconds_low, r.predicted_seconds_high, r.measured_seconds)
        for r in mine
    ]
    words: dict[str, list[str]] = {name: [label(row) for row in mine] for name, label in labels.items()}
    return [score_figures(predictor, figures, words, (row.skipped is not None for row in mine))]
