"""The NeuSight study's table and its bars."""

from __future__ import annotations

from typing import Any

from perfcast.report.document import Document, Section
from perfcast.report.documents.evidence.study import study_document
from perfcast.report.figure import Bars, Figure
from perfcast.report.page import render_page
from rendered import text_of

FITTED = {"habitat": "nvidia: learned from t4, epochs: bmm 40", "learned": ["product_wide: …"]}
PROTOCOL = {"distribution": "as in it", "left_out": "nothing", "fitted_on": {"all rows": FITTED}}


def entry(predictor: str, group: str, value: str, error: float | None, n: int = 3) -> dict[str, Any]:
    return {
        "predictor": predictor, "group": group, "value": value, "n": n, "skipped": 0,
        "mean_absolute_relative_error": error,
    }  # fmt: skip


def document() -> Document:
    seen, unseen = "inference, in distribution", "train, unseen device"
    return study_document(
        [
            entry("published:habitat", "mode, distribution", seen, 0.1),
            entry("published:habitat", "mode, distribution", unseen, 2.9),
            entry("habitat", "mode, distribution", unseen, 0.2, n=2),
            entry("habitat", "mode, distribution", seen, None, n=0),
            entry("learned", "mode, distribution", seen, 0.05),
            entry("learned", "all", "all", 0.07, n=6),
        ],
        PROTOCOL,
    )


def figures() -> list[Figure]:
    sections = [block for block in document().blocks if isinstance(block, Section)]
    return [figure for section in sections for figure in section.blocks if isinstance(figure, Figure)]


def test_what_was_printed_and_what_was_trained_stand_apart_each_beside_ours() -> None:
    printed, trained = text_of(document(), 120).split("As trained and computed here")
    for part, cells in ((printed, ["3", "–", "290.0"]), (trained, ["3", "–", "20.0", "(2)"])):
        (heading,) = [line for line in part.splitlines() if line.startswith("Steps")]
        assert heading.split() == ["Steps", "n", "learned", "habitat"]
        (line,) = [line for line in part.splitlines() if line.startswith("training, unseen device")]
        assert line.split()[3:] == cells
        (line,) = [line for line in part.splitlines() if line.startswith("all")]
        assert line.split() == ["all", "6", "7.0", "–"]


def test_bars_are_grouped_by_what_was_seen_printed_apart_from_trained() -> None:
    printed, trained = figures()
    assert printed.is_grouped
    assert trained.is_grouped
    bars = {b.name: b for b in printed.series if isinstance(b, Bars)}
    assert bars["learned"].values == (0.05, None)
    assert bars["habitat"].values == (0.1, 2.9)
    assert bars["habitat"].texts == ("10", "290")
    assert [b.values for b in trained.series if isinstance(b, Bars)] == [(0.05, None), (None, 0.2)]


def test_how_long_the_studys_predictors_were_trained_is_said() -> None:
    assert "· habitat: nvidia: learned from t4, epochs: bmm 40" in text_of(document(), 120)


def test_the_page_draws_them() -> None:
    page = render_page(document())
    assert 'id="figure-study-printed"' in page
    assert all(figure.is_grouped for figure in figures())
