"""A search as text, JSON and page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.report.data.search.training import data_of
from perfcast.report.documents.search.coordinates import coordinates_figure, list_axes
from perfcast.report.documents.search.figures import format_objective, pareto_figure, sample_plans
from perfcast.report.documents.search.training import document_of
from perfcast.report.figure import Curve, Parallel
from perfcast.report.page import render_page
from perfcast.searches.report.baseline import BaselinePlan, BaselineRanking
from perfcast.searches.report.compose import SearchReport
from perfcast.searches.report.sensitivity import Condition, Sensitivity, SensitivityPoint
from perfcast.searches.result import SearchResult
from perfcast.units import GIB, MILLI
from rendered import json_of, text_of
from search_reports import MILLISECONDS, PLANS, compared_findings, findings, ranked_plan, search_result

HOSTILE = "<script>alert(1)</script>[red]"


def printed(found: SearchReport, width: int = 110) -> str:
    return text_of(document_of(found), width)


def found_by(result: SearchResult) -> SearchReport:
    found = findings()
    outcome = replace(found.comparison.outcomes[0], result=result)
    return replace(found, comparison=replace(found.comparison, outcomes=(outcome,)))


def varied() -> SearchReport:
    base = Condition("as it is", 1.0, load_cluster("dgx-h100:8"), load_device("h100-sxm"), 16)
    points = (
        SensitivityPoint(
            replace(base, name="network bandwidth", factor=0.25), ranked_plan(1), ("tp=2 → tp=1",), 0.012
        ),
        SensitivityPoint(replace(base, name="network bandwidth", factor=4.0), ranked_plan(0), (), 0.010),
        SensitivityPoint(replace(base, name="device memory", factor=0.5), None, reason="no plan is left"),
    )  # fmt: skip
    return findings(sensitivity=Sensitivity(ranked_plan(0), "node", points))


def test_the_text_has_the_winner_the_ranking_the_front_and_the_explanation():
    text = printed(findings())
    for part in (
        "gpt on 8 × made-up (made-up)", "best by seconds of a step", "tp=2,dp=4,mbs=1",
        "10.0 ms  (8.00 ms – 12.0 ms",
        "9 plans, 4 valid, 17 different operations priced, 4 plans simulated, in 1.50 s", "5 excluded",
        "≈2", "Pareto front", "Where the step goes", "From the winner to pp=2", "all plans by formula",
        "16 × 128 tokens", "70.0 GiB of 80.0 GiB",
    ):  # fmt: skip
        assert part in text, part


def test_plans_that_cannot_be_told_apart_come_with_what_to_measure():
    text = " ".join(printed(findings()).split())
    assert "not distinguishable from plan 1 within the interval: 2." in text
    assert "plan 2 − plan 1: 1.00 ms (-2.00 ms to 4.00 ms); measure attention: ± 2 ms" in text


def test_without_simulation_nothing_is_said_about_telling_plans_apart():
    text = printed(found_by(search_result(separations=(), num_simulated=0)))
    assert "Closed forms only" in text


def test_clusters_are_compared_best_first_with_dollars_and_those_without_a_plan():
    text = printed(compared_findings())
    # 2,048 tokens in 10 ms on 8 devices at $4: 8 · 4 / 3600 · 0.01 / 2048 = $0.0434 per million tokens.
    assert "0.0434" in text
    lines = text.splitlines()
    dear = next(at for at, line in enumerate(lines) if line.startswith("dear:8"))
    assert lines[dear + 1].startswith("made-up:8")
    assert "small:8 no plan is left" in text


def test_sensitivity_says_what_keeping_the_winner_costs():
    # 12 ms kept against 11 ms of the best plan: 9.1 % more.
    text = printed(varied())
    assert "+9.1 %" in text
    assert "the same plan wins" in text
    assert "no plan is left" in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_lines_stay_within_the_terminal(width: int):
    lines = printed(varied(), width).splitlines()
    assert max(len(line) for line in lines if not line.startswith("perfcast predict ")) <= width


@pytest.mark.parametrize(
    "make", [findings, compared_findings, varied, lambda: with_baseline(), lambda: with_baseline(None, "why")]
)
def test_the_json_keeps_to_its_schema(make):
    assert json_of(data_of(make()))["clusters"]


def test_the_json_has_ranks_from_one_and_figures_in_si():
    result = json_of(data_of(findings()))["clusters"][0]["result"]
    assert [plan["rank"] for plan in result["ranked"]] == [1, 2, 3, 4]
    assert [plan["step_seconds"] for plan in result["ranked"]] == [ms * MILLI for ms in MILLISECONDS]
    assert result["ranked"][0]["headroom_bytes"] == 10 * GIB
    assert result["separations"][0]["second_rank"] == 2


def test_the_page_holds_all_parts_and_reaches_nothing_outside():
    html = render_page(document_of(varied()))
    for part in (
        "figure-pareto", "figure-coordinates", "figure-causes", "figure-categories", "figure-sensitivity-0",
        "Pareto front", "not distinguishable", "From the winner to pp=2",
    ):  # fmt: skip
        assert part in html, part
    own = html.partition("</script>")[2]
    assert "http://" not in own
    assert "https://" not in own


def test_the_page_compares_clusters():
    html = render_page(document_of(compared_findings()))
    assert "figure-clusters" in html
    assert "small:8: no plan is left" in html


def test_texts_of_users_are_escaped():
    found = findings()
    hostile = replace(found.explanations[1], label=HOSTILE)
    found = replace(found, explanations=(found.explanations[0], hostile), skipped=((HOSTILE, HOSTILE),))
    assert HOSTILE not in render_page(document_of(found))
    assert HOSTILE in " ".join(printed(found, 200).split())


def test_a_sample_keeps_the_fastest_and_reaches_the_slowest():
    seconds = np.arange(1000.0)[::-1] + 1
    places = sample_plans(seconds, 10)
    assert len(set(places.tolist())) == 10
    assert seconds[places[:5]].tolist() == [1, 2, 3, 4, 5]
    assert seconds[places[-1]] == 1000


def test_the_figures_draw_every_valid_plan_the_front_and_the_winner():
    figure = pareto_figure(search_result())
    drawn = {curve.name: len(curve.x) for curve in figure.series if isinstance(curve, Curve)}
    # Of the front, 70, 40 and 20 GiB at growing times: the line runs through all three.
    assert drawn == {
        "valid plans": 4, "Pareto front": 3, "front in time and memory": 3, "best plans": 3, "winner": 1
    }  # fmt: skip


def test_the_line_of_the_front_leaves_out_plans_that_only_cost_less():
    front = (ranked_plan(0), ranked_plan(1, device_bytes=75 * GIB), ranked_plan(3))
    figure = pareto_figure(search_result(front=front))
    curves = [curve for curve in figure.series if isinstance(curve, Curve)]
    assert [len(curve.x) for curve in curves if "front" in curve.name.lower()] == [3, 2]


def test_axes_are_the_dimensions_that_differ_with_memory_and_time():
    axes = list_axes(search_result(), np.arange(4))
    assert [axis.title for axis in axes] == [
        "dp", "tp", "pp", "vp", "zero", "sp", "recompute", "schedule", "GiB", "step, s"
    ]  # fmt: skip
    assert all(axis.heights.min() == 0 and axis.heights.max() == 1 for axis in axes)
    # dp 4, 2, 8, 2 lies at log2: 1/2, 0, 1, 0.
    assert axes[0].heights.tolist() == [0.5, 0, 1, 0]


def test_layers_to_recompute_shards_and_stages_have_axes_where_they_vary():
    usual = Plan(data_parallel=8, zero_stage=1, num_micro_batches=2)
    full = replace(usual, recompute="full")
    plans = to_table(
        [usual, full, replace(full, recompute_layers=1), replace(usual, num_shards=2),
         replace(usual, data_parallel=4, pipeline_parallel=2, stage_layers=(1, 3))]
    )  # fmt: skip
    ones = np.ones(len(plans))
    weighed = replace(search_result().evaluation, plans=plans, step_seconds=ones, device_bytes=ones)
    axes = {a.title: a for a in list_axes(replace(search_result(), evaluation=weighed), np.arange(5))}
    layers, shards, stages = axes["recompute_layers"], axes["shards"], axes["stages"]
    # None, one and all of the layers: 0, 1 and a step above.
    assert layers.heights.tolist() == [0, 1, 0.5, 0, 0]
    assert [text for _, text in layers.ticks] == ["0", "1", "all"]
    # Over all 8 replicas, over 2 or over all 4.
    assert shards.heights.tolist() == [1, 1, 1, 0, 0.5]
    assert (stages.heights.tolist(), [t for _, t in stages.ticks]) == ([0, 0, 0, 0, 1], ["even", "uneven"])


def test_the_green_line_of_the_dimensions_is_the_winners_not_the_fastest_formulas():
    # The third plan wins by events; its line has dp = 8, the top of its axis, and comes last.
    result = search_result(ranked=(ranked_plan(2),))
    (parallel,) = coordinates_figure(result).series
    assert isinstance(parallel, Parallel)
    assert len(parallel.strands) == 7
    assert parallel.strands[-1].lines[0][0] == 1.0


def test_a_named_plan_that_does_not_fit_is_said_not_to():
    found = findings()
    first, second = found.explanations[:2]
    second = replace(second, bytes_by_category={"activation": 100 * GIB})
    text = " ".join(printed(replace(found, explanations=(first, second))).split())
    assert f"{second.label} does not fit: it needs 100 GiB of 8.00 GiB of a device" in text
    assert text.count("does not fit") == 1


def with_baseline(plan: Plan | None = PLANS[1], reason: str = "") -> SearchReport:
    seconds = None if plan is None else 0.011
    first = BaselinePlan(2, 2, 2, 0.5, plan, seconds)
    return findings(
        baseline=BaselineRanking("searcher-3d", (first, BaselinePlan(8, 1, 1, 0.7, None, None)), 10, reason)
    )


def test_another_searchers_choice_stands_beside_the_winner():
    text = " ".join(printed(with_baseline()).split())
    assert "chooses dp=2,tp=2,pp=2, 500 ms by its own formulas" in text
    assert "First of 10 plans by searcher-3d" in text
    assert "not possible" in text
    assert "plans by searcher-3d" in render_page(document_of(with_baseline()))
    refused = " ".join(printed(with_baseline(None, "it does not fit"), 200).split())
    assert "not possible: it does not fit" in refused


def test_a_training_of_known_length_says_how_long_it_takes():
    # 1,000 steps of 10 ms, 20 % either way.
    result = search_result(objective="time-to-train", num_steps=1000)
    assert "10.0 s (8.00 s – 12.0 s with 90 %) for 1,000 steps" in printed(found_by(result))
    fewest = search_result(objective="devices", num_steps=1000)
    text = " ".join(printed(found_by(fewest)).split())
    assert "8 devices are the fewest that keep the deadline" in text


@pytest.mark.parametrize(
    ("objective", "value", "text"),
    [
        ("time", 0.25, "250 ms"), ("tokens-per-second", 2000.0, "2.00 k tokens/s"),
        ("dollars-per-token", 3e-6, "$3 per million tokens"), ("energy-per-token", 0.7, "0.7 J per token"),
        ("devices", 1024.0, "1,024 devices"), ("time-to-train", 7200.0, "2.00 h"),
    ],
)  # fmt: skip
def test_values_carry_their_unit(objective: str, value: float, text: str):
    assert format_objective(value, objective) == text
