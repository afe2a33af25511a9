"""A step under a plan as text, JSON and page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.core.forecast.plan import CAUSES, PlanForecast, RankTime, Span
from perfcast.report import palette
from perfcast.report.data.plan_step import data_of
from perfcast.report.documents.step.pipeline import (
    MAX_PIECES,
    MAX_RANKS,
    NUM_BINS,
    longest_looks,
    look_of,
    merge_spans,
    outermost,
    pipeline_figure,
    spread_evenly,
)
from perfcast.report.documents.step.plan import (
    CAUSE_WORDS,
    busy_exposed_waiting,
    document_of,
    ranks_figure,
)
from perfcast.report.figure import Curve, Figure, Heatmap
from perfcast.report.page import render_page
from plan_forecasts import plan_forecast, spans, step_time
from rendered import json_of, text_of

HOSTILE = "<script>alert(1)</script>[red]"


def printed(forecast: PlanForecast, width: int = 110) -> str:
    return text_of(document_of(forecast), width)


def timeline_of(forecast: PlanForecast) -> Figure:
    return pipeline_figure(forecast, CAUSE_WORDS)


def of_many_stages(count: int) -> PlanForecast:
    ranks = tuple(RankTime(8 * s, s, 8, {"compute": 0.006, "bubble": 0.004}) for s in range(count))
    return plan_forecast(time=replace(step_time(), ranks=ranks, spans=()))


def test_every_cause_has_a_word_and_a_colour():
    assert CAUSE_WORDS.keys() == palette.CAUSES.keys() == set(CAUSES)
    assert len(set(palette.CAUSES.values())) == len(CAUSES)


def test_the_text_has_headline_causes_stages_recommendations_path_and_assumptions():
    text = printed(plan_forecast())
    for part in (
        "gpt on 8 × made-up", "10.0 ms  (8.00 ms – 13.0 ms with 90 %)", "51.2 k tokens/s", "50.0 %",
        "fits", "pipeline bubble", "links are free", "layer backward", "ranks fill the cluster", "σ = 0.02",
    ):  # fmt: skip
        assert part in text


def test_a_parallel_program_says_what_it_is():
    assert "4 × 128 tokens · a parallel program of 8 ranks" in printed(
        plan_forecast(plan=None, training=None)
    )


@pytest.mark.parametrize("width", [60, 80, 200])
def test_lines_stay_within_the_terminal(width: int):
    assert max(map(len, printed(plan_forecast(), width).splitlines())) <= width


def test_many_stages_are_shortened_and_the_last_is_shown():
    text = printed(of_many_stages(40))
    assert "…" in text
    assert " 312 " in text
    assert " 200 " not in text


def test_busy_exposed_and_waiting_add_up_to_the_step():
    for rank in step_time().ranks:
        assert sum(busy_exposed_waiting(rank)) == pytest.approx(0.01)


def test_the_json_keeps_to_its_published_schema():
    program = plan_forecast(plan=None, memory=None, stragglers=None, training=None)
    for forecast in (plan_forecast(), program):
        data = json_of(data_of(forecast))
        assert data["tokens_per_second"] == pytest.approx(51_200)
        assert sum(data["seconds_by_cause"].values()) == pytest.approx(data["step_seconds"])
        assert data["global_batch_size"] == 4
        assert [rank["rank"] for rank in data["ranks"]] == [0, 4]


def test_the_page_needs_nothing_else_and_has_all_sections():
    text = render_page(document_of(plan_forecast()))
    for heading in (
        "Where the step goes",
        "Ranks that differ",
        "Timeline",
        "What would help",
        "Critical path",
        "Memory",
    ):
        assert f"<h2>{heading}" in text
    assert 'src="http' not in text


def test_sections_without_content_are_left_out():
    bare = plan_forecast(
        memory=None, recommendations=(), time=replace(step_time(), spans=(), critical_path=())
    )
    text = render_page(document_of(bare))
    for heading in ("Timeline", "What would help", "Critical path", "Memory"):
        assert f"<h2>{heading}" not in text


def test_names_are_text_not_markup():
    span = Span(0, "compute", HOSTILE, 0.0, 0.01)
    time = replace(step_time(), spans=(span,), critical_path=((HOSTILE, 0.01),))
    hostile = plan_forecast(model=HOSTILE, time=time, assumptions=(HOSTILE,))
    assert "<script>alert" not in render_page(document_of(hostile))
    assert "[red]" in printed(hostile)


def test_bars_of_all_ranks_are_equally_long():
    figure = ranks_figure(plan_forecast())
    assert {round(sum(bar.values[i] for bar in figure.series), 9) for i in (0, 1)} == {0.01}


def test_the_timeline_puts_compute_above_collectives_and_tells_backwards_apart():
    figure = timeline_of(plan_forecast())
    lanes = {one.name: {y for y in one.y if y is not None} for one in figure.series if isinstance(one, Curve)}
    assert lanes["backward"] == {0, 2}
    assert lanes["data communication"] == {1}
    assert lanes["tensor communication"] == {3}


def test_neighbours_that_look_alike_are_one_piece_and_micro_batches_stay_apart():
    lanes = {(0, True): 0, (0, False): 1, (4, True): 2, (4, False): 3}
    pieces = merge_spans(spans(), lanes, 0.01)
    assert len(pieces) == len(spans())
    alike = [Span(0, "compute", "layer forward", i * 1e-4, (i + 1) * 1e-4, micro_batch=0) for i in range(9)]
    (piece,) = merge_spans(alike, lanes, 0.01)
    assert (piece.start_seconds, piece.end_seconds) == (0.0, pytest.approx(9e-4))


def test_kernels_inside_a_pass_are_left_to_perfetto():
    inside = Span(0, "compute", "mlp.up", 0.0005, 0.0008, micro_batch=0)
    pass_of_it, collective = spans()[0], Span(0, "tensor", "all_gather", 0.0005, 0.0006, "tensor", 0)
    assert outermost([inside, collective, pass_of_it]) == [pass_of_it, collective]


def test_put_off_gradients_look_different():
    looks = [look_of(Span(0, "compute", f"layer {kind}", 0.0, 1.0)) for kind in (
        "forward", "backward", "gradient of inputs", "gradient of weights"
    )]  # fmt: skip
    assert looks == ["compute", "backward", "backward", "gradient of weights"]


def test_too_many_pieces_become_a_picture_of_bins():
    count = 2 * MAX_PIECES
    many = tuple(
        Span(rank, "compute", "forward", (i + 0.1) * 0.01 / count, (i + 1) * 0.01 / count, micro_batch=i)
        for i in range(count) for rank in (0, 4)
    )  # fmt: skip
    bins, *legend = timeline_of(plan_forecast(time=replace(step_time(), spans=many))).series
    assert isinstance(bins, Heatmap)
    assert [one.name for one in legend if isinstance(one, Curve)] == ["compute"]
    assert list(bins.values[0]) == [0] * NUM_BINS


def test_a_bin_shows_what_takes_most_of_it():
    half = 0.01 / NUM_BINS / 2
    short = [
        Span(0, "compute", "layer forward", 0.0, 0.8 * half), Span(0, "compute", "backward", half, 2 * half),
        Span(0, "compute", "layer forward", 2 * half, 2.9 * half),
        Span(0, "data", "gather", 0.005, 0.01, "data"),
    ]  # fmt: skip
    compute, collective = longest_looks(short, {(0, True): 0, (0, False): 1}, 0.01)
    assert compute[:3].tolist() == [1, -1, -1]
    assert (collective[: NUM_BINS // 2 - 1] == -1).all()
    assert (collective[NUM_BINS // 2 :] == 2 + CAUSES.index("data")).all()


def test_of_many_ranks_the_first_and_the_last_are_shown():
    shown = spread_evenly(range(1000))
    assert (len(shown), shown[0], shown[-1]) == (MAX_RANKS, 0, 999)
    assert spread_evenly([3, 4]) == [3, 4]
