"""A step under a plan as text, JSON and page."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from perfcast.core.forecast.plan import CAUSES, PlanForecast, RankTime, Span
from perfcast.report.plan_step_figures import CAUSE_COLOURS, MAX_RANKS, plot_ranks, spread_evenly
from perfcast.report.plan_step_html import render_plan_forecast_html
from perfcast.report.plan_step_json import plan_forecast_schema, plan_forecast_to_dict
from perfcast.report.plan_step_text import CAUSE_WORDS, busy_exposed_waiting, print_plan_forecast
from perfcast.report.plan_step_timeline import (
    MAX_PIECES,
    NUM_BINS,
    longest_looks,
    look_of,
    merge_spans,
    outermost,
    plot_timeline,
)
from plan_forecasts import plan_forecast, spans, step_time

HOSTILE = "<script>alert(1)</script>[red]"


def printed(forecast: PlanForecast, width: int = 110) -> str:
    stream = io.StringIO()
    print_plan_forecast(forecast, Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


def of_many_stages(count: int) -> PlanForecast:
    ranks = tuple(RankTime(8 * s, s, 8, {"compute": 0.006, "bubble": 0.004}) for s in range(count))
    return plan_forecast(time=replace(step_time(), ranks=ranks, spans=()))


def test_every_cause_has_a_word_and_a_colour():
    assert CAUSE_WORDS.keys() == CAUSE_COLOURS.keys() == set(CAUSES)
    assert len(set(CAUSE_COLOURS.values())) == len(CAUSES)


def test_the_text_has_headline_causes_stages_reliefs_path_and_assumptions():
    text = printed(plan_forecast())
    for part in (
        "gpt on 8 × made-up", "10.0 ms (8.00 ms to 13.0 ms with 90 %)", "51.2 k tokens/s", "50.0 %",
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
    schema = plan_forecast_schema()
    Draft202012Validator.check_schema(schema)
    program = plan_forecast(plan=None, memory=None, stragglers=None, training=None)
    for forecast in (plan_forecast(), program):
        data = json.loads(json.dumps(plan_forecast_to_dict(forecast), allow_nan=False))
        Draft202012Validator(schema).validate(data)
        assert data["tokens_per_second"] == pytest.approx(51_200)
        assert sum(data["seconds_by_cause"].values()) == pytest.approx(data["step_seconds"])
        assert data["global_batch_size"] == 4
        assert [rank["rank"] for rank in data["ranks"]] == [0, 4]


def test_the_page_needs_nothing_else_and_has_all_sections():
    text = render_plan_forecast_html(plan_forecast())
    for heading in (
        "Where the step goes",
        "By rank",
        "Timeline",
        "What would help",
        "Critical path",
        "Memory",
    ):
        assert f"<h2>{heading}" in text
    assert 'src="http' not in text


def test_sections_without_content_are_left_out():
    bare = plan_forecast(memory=None, reliefs=(), time=replace(step_time(), spans=(), critical_path=()))
    text = render_plan_forecast_html(bare)
    for heading in ("Timeline", "What would help", "Critical path", "Memory"):
        assert f"<h2>{heading}" not in text


def test_names_are_text_not_markup():
    span = Span(0, "compute", HOSTILE, 0.0, 0.01)
    time = replace(step_time(), spans=(span,), critical_path=((HOSTILE, 0.01),))
    hostile = plan_forecast(model=HOSTILE, time=time, assumptions=(HOSTILE,))
    assert "<script>alert" not in render_plan_forecast_html(hostile)
    assert "[red]" in printed(hostile)


def test_bars_of_all_ranks_are_equally_long():
    figure = plot_ranks(plan_forecast())
    assert {round(sum(bar.x[i] for bar in figure.data), 9) for i in (0, 1)} == {0.01}


def test_the_timeline_puts_compute_above_exchanges_and_tells_backwards_apart():
    figure = plot_timeline(plan_forecast())
    lanes = {trace.name: {y for y in trace.y if y is not None} for trace in figure.data}
    assert lanes["backward"] == {0, 2}
    assert lanes["data exchange"] == {1}
    assert lanes["tensor exchange"] == {3}


def test_neighbours_that_look_alike_are_one_piece_and_micro_batches_stay_apart():
    lanes = {(0, True): 0, (0, False): 1, (4, True): 2, (4, False): 3}
    pieces = merge_spans(spans(), lanes, 0.01)
    assert len(pieces) == len(spans())
    alike = [Span(0, "compute", "layer forward", i * 1e-4, (i + 1) * 1e-4, micro_batch=0) for i in range(9)]
    (piece,) = merge_spans(alike, lanes, 0.01)
    assert (piece.start_seconds, piece.end_seconds) == (0.0, pytest.approx(9e-4))


def test_kernels_inside_a_pass_are_left_to_perfetto():
    inside = Span(0, "compute", "mlp.up", 0.0005, 0.0008, micro_batch=0)
    pass_of_it, exchange = spans()[0], Span(0, "tensor", "all_gather", 0.0005, 0.0006, "tensor", 0)
    assert outermost([inside, exchange, pass_of_it]) == [pass_of_it, exchange]


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
    figure = plot_timeline(plan_forecast(time=replace(step_time(), spans=many)))
    assert (figure.data[0].type, [trace.name for trace in figure.data[1:]]) == ("heatmap", ["compute"])
    assert np.array(figure.data[0].z, dtype=float)[0].tolist() == [0] * NUM_BINS


def test_a_bin_shows_what_takes_most_of_it():
    half = 0.01 / NUM_BINS / 2
    short = [
        Span(0, "compute", "layer forward", 0.0, 0.8 * half), Span(0, "compute", "backward", half, 2 * half),
        Span(0, "compute", "layer forward", 2 * half, 2.9 * half),
        Span(0, "data", "gather", 0.005, 0.01, "data"),
    ]  # fmt: skip
    compute, exchange = longest_looks(short, {(0, True): 0, (0, False): 1}, 0.01)
    assert compute[:3].tolist() == [1, -1, -1]
    assert (exchange[: NUM_BINS // 2 - 1] == -1).all()
    assert (exchange[NUM_BINS // 2 :] == 2 + CAUSES.index("data")).all()


def test_of_many_ranks_the_first_and_the_last_are_shown():
    shown = spread_evenly(range(1000))
    assert (len(shown), shown[0], shown[-1]) == (MAX_RANKS, 0, 999)
    assert spread_evenly([3, 4]) == [3, 4]
