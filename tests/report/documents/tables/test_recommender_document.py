"""A recommendation model's forecast as text, JSON, page and timeline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.core.embedding.model import Recommender
from perfcast.core.forecast.recommender import (
    RECOMMENDER_CAUSES,
    RecommenderForecast,
    RecommenderRank,
    RecommenderSpan,
)
from perfcast.evidence.validate.embedding import EmbeddingScore
from perfcast.report.data.recommender import data_of
from perfcast.report.documents.evidence.scores import embedding_document
from perfcast.report.documents.tables.recommender import document_of, look_of, ranks_figure, timeline_figure
from perfcast.report.page import render_page
from perfcast.report.timelines import recommender as timeline
from rendered import events_of, json_of, text_of

CAUSES = dict(zip(RECOMMENDER_CAUSES, (3e-3, 1e-3, 2e-3, 1e-3, 5e-4, 5e-4), strict=True))
#: The second rank's lookup is longer; the first one waits for the collective.
SPANS = (
    RecommenderSpan(0, "compute", "bottom forward", 0.0, 1e-3),
    RecommenderSpan(1, "compute", "lookup forward", 1e-3, 3e-3),
    RecommenderSpan(0, "communication", "pooled", 3e-3, 4e-3),
    RecommenderSpan(1, "communication", "pooled", 3e-3, 4e-3),
    RecommenderSpan(1, "communication", "all-reduce head", 7e-3, 8e-3),
)
FORECAST = RecommenderForecast(
    Recommender("tiny", 4, (16,), (1,), (EmbeddingTable("users", 100, 16, 1.0),)), "box", "t4", 2, 512,
    "fp32", "sgd", "roofline", (TablePlacement(ShardingKind.TABLE_WISE, (1,)),), 8e-3, 6e-3, 1.1e-2,
    (RecommenderRank(0, CAUSES, 1e9, 0), RecommenderRank(1, CAUSES, 3e9, 1)), {"bottom forward": 1e-3},
    {"pooled": 100.0}, 2e9, SPANS, ("none",),
)  # fmt: skip


def test_the_text_says_step_and_that_it_does_not_fit():
    text = text_of(document_of(FORECAST))
    assert "8.00 ms  (6.00 ms – 11.0 ms with 90 %)" in text
    assert "does not fit" in text


def test_the_json_holds_the_sharding_and_adds_up():
    data = json_of(data_of(FORECAST))
    assert data["sharding"] == [{"table": "users", "kind": "table_wise", "ranks": [1]}]
    assert sum(data["ranks"][0]["seconds_by_cause"].values()) == pytest.approx(data["step_seconds"])
    assert data["samples_per_second"] == pytest.approx(64_000)


def test_the_page_has_all_sections_and_raises_the_alarm():
    html = render_page(document_of(FORECAST))
    for heading in ("Where the step goes", "By rank", "Timeline", "Collectives", "Dense networks", "Tables"):
        assert f"<h2>{heading}" in html
    assert html.count('id="figure-') == 2
    assert "does not fit" in html
    assert 'src="http' not in html


def test_a_forecast_without_spans_or_neighbours_has_a_page_without_those_sections():
    alone = replace(FORECAST, spans=(), num_devices=1, ranks=FORECAST.ranks[:1])
    html = render_page(document_of(alone))
    assert "<h2>Timeline</h2>" not in html
    assert "<h2>Collectives</h2>" not in html


def test_names_in_the_page_are_text():
    hostile = replace(FORECAST.model, name="<b>tiny</b>")
    html = render_page(document_of(replace(FORECAST, model=hostile, assumptions=("<i>none</i>",))))
    assert "<b>tiny" not in html
    assert "<i>none" not in html


def test_bars_of_ranks_are_as_long_as_the_step():
    figure = ranks_figure(FORECAST)
    lengths = [sum(bars) for bars in zip(*(series.values for series in figure.series), strict=True)]
    assert lengths == pytest.approx([8e-3, 8e-3])


def test_the_timeline_has_a_look_for_every_piece_and_collectives_below_their_rank():
    figure = timeline_figure(FORECAST)
    names = [series.name for series in figure.series]
    assert names == ["dense forward", "lookup forward", "all-to-all", "all-reduce"]
    assert {look_of(span) for span in SPANS} == set(names)
    exchanged = next(series for series in figure.series if series.name == "all-to-all")
    assert [lane for lane in exchanged.y if lane is not None] == [1, 1, 3, 3]


def test_trace_events_have_a_process_for_each_rank_and_say_how_much_was_sent():
    events = events_of(timeline.events_of(FORECAST))
    pieces = [event for event in events if event["ph"] == "X"]
    assert [(e["pid"], e["tid"], e["ts"], e["dur"]) for e in pieces[1:3]] == [
        (1, 1, 1000.0, 2000.0),
        (0, 2, 3000.0, 1000.0),
    ]
    assert pieces[2]["args"] == {"message_bytes": 100.0}
    named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert named == {"rank 0", "rank 1"}


def test_scores_are_shown_in_percent():
    score = EmbeddingScore("learned", "sgd", "forward", "new tables", 50, 0.08, 0.1, 0.07, 0.9)
    assert "8.0 %" in text_of(embedding_document([score]))
