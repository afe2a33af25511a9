"""What a forecast's first plan costs among the measured ones."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.evidence.validate.published.choice import (
    choice_entries,
    group_plans,
    score_choices,
    searcher_seconds,
)
from perfcast.published.searcher_3d.files import SearcherCluster, SearcherModel
from perfcast.published.searcher_3d.search import price_plan

MODEL = Transformer(
    num_layers=4, hidden_size=64, num_attention_heads=8, num_kv_heads=8, head_size=8, ffn_hidden_size=256,
    vocab_size=512,
)  # fmt: skip


def case(tensor: int, measured: float | None, job: str = "a", source: str = "x") -> Any:
    asked = SimpleNamespace(
        plan=Plan(tensor_parallel=tensor), model=MODEL, sequence_length=128, training=Training()
    )
    run = SimpleNamespace(run=asked, cluster=load_cluster("dgx-h100:8"))
    return SimpleNamespace(
        source=source, configuration={"model": job}, run=run, measured_seconds=measured,
        catalog_device="h100-sxm",
    )  # fmt: skip


CASES = [case(1, 10.0), case(2, 12.0), case(4, 8.0), case(8, 20.0)]


def test_the_first_plan_is_judged_by_its_measured_time():
    # Forecast first: tp=1, measured 10 s, 25 % above the best, 8 s; the best is among the first five of four.
    entry = score_choices(CASES, {"p": [1.0, 2.0, 3.0, 4.0]})[0]
    assert (entry["n"], entry["share_within_15_percent"], entry["share_best_in_first_five"]) == (1, 0, 1)
    assert entry["median_loss"] == pytest.approx(0.25)
    assert score_choices(CASES, {"p": [2.0, 3.0, 1.0, 4.0]})[0]["share_within_15_percent"] == 1


def test_the_best_plan_beyond_the_first_five_is_missed():
    cases = [case(2**at, 10.0 - at) for at in range(6)]
    assert score_choices(cases, {"p": [0, 1, 2, 3, 4, 5]})[0]["share_best_in_first_five"] == 0


def test_repeats_share_their_median_and_small_groups_are_left_out():
    cases = [*CASES, case(1, 30.0), case(1, 12.0), case(1, 5.0, job="b")]
    groups = group_plans(cases, [1.0] * len(cases))
    assert len(groups) == 1
    assert groups[0][0] == (1.0, 12.0)


def test_cases_without_forecast_or_measurement_do_not_count():
    assert score_choices([*CASES[:3], case(8, None)], {"p": [1.0] * 4}) == []
    assert score_choices(CASES, {"p": [1.0, 2.0, 3.0, None]}) == []


def test_the_published_searcher_is_asked_with_the_jobs_figures():
    # One sequence of 128 tokens: 2 bytes · 128 · 64 of activation, four sums of it in each of four layers.
    activation = 2 * 128 * 64 / 1e6
    cluster = load_cluster("dgx-h100:8")
    figures = SearcherCluster(1, 8, 989_400.0, cluster.levels[0].link.bytes_per_second / 1e9, 50.0)
    seconds = searcher_seconds([case(4, 1.0)])[0]
    job = SearcherModel(4, (0.0,), 4 * 4 * activation, 0.0, (activation,))
    exchanged = price_plan(figures, job, (1, 4, 1)).tensor_milliseconds / 1000
    assert seconds is not None
    assert seconds > exchanged > 0
    assert searcher_seconds([case(4, 1.0)])[0] != searcher_seconds([case(2, 1.0)])[0]


def test_predictors_searcher_and_any_plan_are_scored_on_the_same_groups():
    noisy = [case(at, 10.0 + at, job="b", source="usp") for at in (1, 2, 4, 8)]
    unknown = case(8, 5.0, job="a")  # a repeat that one predictor cannot forecast counts for none
    predicted = {"p": [*[2.0, 3.0, 1.0, 4.0] * 2, None]}
    entries = choice_entries([*CASES, *noisy, unknown], predicted)
    assert {(e["predictor"], e["value"], e["n"]) for e in entries} == {
        ("p", "all", 2), ("searcher_3d", "all", 2), ("any plan", "all", 2),
        ("p", "without usp", 1), ("searcher_3d", "without usp", 1), ("any plan", "without usp", 1),
    }  # fmt: skip
    assert {e["group"] for e in entries} == {"choice of plan"}


def test_any_plan_is_the_mean_over_all_orders():
    # Measured 10, 12, 8, 20 s: one of four is within 15 % of 8 s; all four are among the first five. The
    # median of 8, 10, 12, 20 is 11 s, 37.5 % above the best.
    entries = {e["predictor"]: e for e in choice_entries(CASES, {"p": [1.0] * 4}) if e["value"] == "all"}
    found = entries["any plan"]
    assert (found["share_within_15_percent"], found["share_best_in_first_five"]) == (0.25, 1)
    assert found["median_loss"] == pytest.approx(0.375)
