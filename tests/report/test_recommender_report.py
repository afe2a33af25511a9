"""A recommendation model's forecast as text and JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from perfcast.core.embedding import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.core.recommender import Recommender
from perfcast.core.recommender_forecast import RECOMMENDER_CAUSES, RecommenderForecast, RecommenderRank
from perfcast.report.embedding_text import print_embedding_scores
from perfcast.report.recommender import print_recommender_forecast, recommender_to_dict
from perfcast.validate.embedding import EmbeddingScore

CAUSES = dict(zip(RECOMMENDER_CAUSES, (3e-3, 1e-3, 2e-3, 1e-3, 5e-4, 5e-4), strict=True))
FORECAST = RecommenderForecast(
    Recommender("tiny", 4, (16,), (1,), (EmbeddingTable("users", 100, 16, 1.0),)), "box", "t4", 2, 512,
    "fp32", "sgd", "roofline", (TablePlacement(ShardingKind.TABLE_WISE, (1,)),), 8e-3, 6e-3, 1.1e-2,
    (RecommenderRank(0, CAUSES, 1e9, 0), RecommenderRank(1, CAUSES, 3e9, 1)), {"bottom forward": 1e-3},
    {"pooled": 100.0}, 2e9, assumptions=("none",),
)  # fmt: skip


def test_the_text_says_step_and_that_it_does_not_fit():
    out = io.StringIO()
    print_recommender_forecast(FORECAST, Console(file=out, width=200))
    assert "step 8.00 ms (6.00 ms to 11.0 ms)" in out.getvalue()
    assert "DOES NOT FIT" in out.getvalue()


def test_the_json_holds_the_sharding_and_adds_up():
    data = json.loads(json.dumps(recommender_to_dict(FORECAST)))
    assert data["sharding"] == [{"table": "users", "kind": "table_wise", "ranks": [1]}]
    assert sum(data["ranks"][0]["seconds_by_cause"].values()) == pytest.approx(data["step_seconds"])
    assert data["samples_per_second"] == pytest.approx(64_000)


def test_scores_are_shown_in_percent():
    out = io.StringIO()
    score = EmbeddingScore("learned", "sgd", "forward", "new tables", 50, 0.08, 0.1, 0.07, 0.9)
    print_embedding_scores([score], Console(file=out, width=200))
    assert "8.0%" in out.getvalue()
