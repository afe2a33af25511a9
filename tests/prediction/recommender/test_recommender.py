"""A training step of a sharded recommendation model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.core.embedding.model import Recommender, recommender_from_config
from perfcast.core.forecast.recommender import RECOMMENDER_CAUSES, RecommenderForecast
from perfcast.errors import InputError, ModelError, PlanError
from perfcast.prediction.recommender.predict import forecast_recommender, read_recommender
from perfcast.prediction.recommender.program import StepSeconds, play_step
from perfcast.prediction.request.recommender import RecommenderRequest
from perfcast.workload.recommender.placement import plain_sharding

MODEL = Recommender(
    "tiny", 4, (32, 16), (32, 1), tuple(EmbeddingTable(f"t{i}", 100_000, 16, 8.0) for i in range(4))
)
COMMON = {
    "indices": 1.0, "bottom forward": 2.0, "pooled": 3.0, "head forward": 4.0, "head backward": 5.0,
    "gradients": 3.0, "bottom backward": 2.0, "all-reduce head": 1.0, "all-reduce bottom": 1.0,
    "optimizer": 1.0,
}  # fmt: skip


def forecast(**asked: Any) -> RecommenderForecast:
    """Of the tiny model on two devices, unless something else is asked for."""
    usual = {"model": MODEL, "cluster": "dgx-a100:2", "global_batch_size": 512, "cost_model": "roofline"}
    return forecast_recommender(RecommenderRequest(**(usual | asked)))


def _on(*ranks: int) -> tuple[TablePlacement, ...]:
    return tuple(TablePlacement(ShardingKind.TABLE_WISE, (rank,)) for rank in ranks)


def test_a_step_by_hand():
    # 2 bottom + 6 lookup | 3 pooled | 4 + 5 head | 3 gradients, beside them 2 bottom | 6 lookup | 1 | 1
    step = play_step(StepSeconds(COMMON, [6.0], [6.0]), 1, True)
    assert step.step_seconds == pytest.approx(2 + 6 + 4 + 5 + 2 + 6 + 1)  # alone: no collectives
    step = play_step(StepSeconds(COMMON, [6.0, 6.0], [6.0, 6.0]), 2, True)
    assert step.step_seconds == pytest.approx(2 + 6 + 3 + 4 + 5 + 3 + 6 + 1 + 1)
    assert step.causes(0) == pytest.approx(
        {
            "dense": 14,
            "lookup forward": 6,
            "lookup backward": 6,
            "all-to-all": 4,
            "all-reduce": 1,
            "waiting": 0,
        }
    )


def test_the_slowest_rank_holds_up_all():
    even = play_step(StepSeconds(COMMON, [6.0, 6.0], [6.0, 6.0]), 2, True)
    uneven = play_step(StepSeconds(COMMON, [2.0, 10.0], [2.0, 10.0]), 2, True)
    assert uneven.step_seconds == pytest.approx(even.step_seconds + 8)
    assert uneven.causes(0)["waiting"] == pytest.approx(16)
    for rank in (0, 1):
        assert sum(uneven.causes(rank).values()) == pytest.approx(uneven.step_seconds)


def test_lookups_wait_for_their_indices_where_input_is_not_pipelined():
    slow = {**COMMON, "indices": 9.0}
    early, late = (play_step(StepSeconds(slow, [6.0, 6.0], [6.0, 6.0]), 2, p) for p in (True, False))
    assert late.step_seconds == pytest.approx(early.step_seconds + 7 - 1)


def test_a_balanced_sharding_beats_one_on_a_single_rank():
    cluster = load_cluster("dgx-a100:4")
    balanced, piled = (
        forecast(cluster=cluster, global_batch_size=8192, placements=places)
        for places in (_on(0, 1, 2, 3), _on(0, 0, 0, 0))
    )
    assert balanced.step_seconds < piled.step_seconds
    assert balanced.lookup_imbalance == pytest.approx(1)
    assert piled.lookup_imbalance == pytest.approx(4)
    assert balanced.step_seconds_low < balanced.step_seconds < balanced.step_seconds_high
    assert balanced.peak_memory_bytes < piled.peak_memory_bytes
    for rank in piled.ranks:
        assert set(rank.seconds_by_cause) == set(RECOMMENDER_CAUSES)
        assert sum(rank.seconds_by_cause.values()) == pytest.approx(piled.step_seconds)


def test_one_device_exchanges_nothing():
    alone = forecast(cluster="dgx-a100:1", global_batch_size=512, optimizer="sgd", graphed=True)
    assert alone.ranks[0].seconds_by_cause["all-to-all"] == 0
    assert alone.samples_per_second == pytest.approx(512 / alone.step_seconds)


@pytest.mark.parametrize("interaction", ["cat", "dcn"])
def test_every_interaction_is_forecast(interaction: str):
    model = replace(MODEL, interaction=interaction, cross_layers=2, cross_rank=8)
    assert forecast(model=model).step_seconds > 0


def test_small_tables_are_copied_and_giants_cut():
    tables = (EmbeddingTable("giant", 10**7, 64, 1.0), EmbeddingTable("tiny", 100, 64, 1.0),
              EmbeddingTable("middle", 10**5, 64, 1.0))  # fmt: skip
    kinds = [place.kind for place in plain_sharding(tables, 4, 1e10)]
    assert kinds == [ShardingKind.ROW_WISE, ShardingKind.DATA_PARALLEL, ShardingKind.TABLE_WISE]
    with pytest.raises(PlanError, match="do not fit"):
        plain_sharding(tables, 4, 1e6)


def test_what_cannot_be_followed_is_refused():
    with pytest.raises(ModelError, match="not a recommendation model"):
        read_recommender("gpt2")
    with pytest.raises(InputError, match="4 tables with 2 placements"):
        forecast(global_batch_size=512, placements=_on(0, 1))
    with pytest.raises(InputError, match="does not share"):
        forecast(global_batch_size=511, placements=_on(0, 1, 0, 1))
    with pytest.raises(ModelError, match="widths"):
        replace(MODEL, bottom_mlp=(32, 8))
    with pytest.raises(ModelError, match="table_rows"):
        recommender_from_config("x", {})


def test_the_catalogs_dcn_has_its_multi_hot_tables():
    model = read_recommender("dlrm-dcnv2")
    assert len(model.tables) == 26
    assert sum(table.pooling for table in model.tables) == 214
