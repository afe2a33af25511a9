from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.core.forecast.fit import fit_of
from perfcast.core.forecast.serving import Latency, ServingForecast
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Disaggregated, Pool
from perfcast.core.serving.load import OpenLoad, RecordedLoad, SaturatedLoad
from perfcast.report.documents.serving.describe import describe_deployment, describe_load
from perfcast.report.documents.serving.forecast import document_of
from perfcast.report.figure import Curve
from perfcast.report.page import render_page
from perfcast.units import GIB
from rendered import figure_names, figure_of, text_of
from serving_forecasts import KV_TOKENS, between, serving_forecast, with_both_forms


@pytest.fixture(scope="module")
def forecast() -> ServingForecast:
    return with_both_forms()


def test_the_text_has_latencies_rates_bounds_and_both_forms_within_80_columns(forecast: ServingForecast):
    text = text_of(document_of(forecast))
    for words in (
        "Time to first token",
        "Time per output token",
        "99 % within",
        "with 90 %",
        "Tokens written",
        "64 clients",
        "40,000 tokens",
        "no room for keys and values",
        "Formula",
        "Difference",
        "per million tokens",
        "760 kJ",
        "every client reads",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80


def test_figures_show_queue_memory_and_distributions(forecast: ServingForecast):
    document = document_of(forecast)
    assert figure_names(document) == ["first-token", "output-token", "requests", "held-tokens"]
    running, waiting = figure_of(document, "requests").series
    assert isinstance(running, Curve)
    assert isinstance(waiting, Curve)
    assert max(float(y or 0) for y in running.y) == 32
    assert max(float(y or 0) for y in waiting.y) > 20
    held = figure_of(document, "held-tokens")
    assert [rule.y for rule in held.rules] == [KV_TOKENS]


def test_a_distribution_rises_to_all_requests(forecast: ServingForecast):
    (curve,) = figure_of(document_of(forecast), "first-token").series
    assert isinstance(curve, Curve)
    assert forecast.played is not None
    assert curve.y[0] == 0
    assert curve.y[-1] == 1
    assert list(curve.x) == sorted(float(x or 0) for x in curve.x)
    assert curve.x[-1] == pytest.approx(forecast.played.time_to_first_token_seconds.max())


def test_long_runs_are_drawn_with_few_points(forecast: ServingForecast):
    document = document_of(forecast)
    for name in ("requests", "held-tokens"):
        assert all(
            len(series.x) <= 500 for series in figure_of(document, name).series if isinstance(series, Curve)
        )


def test_a_steady_state_alone_has_no_curves():
    document = document_of(serving_forecast(method="closed_form"))
    assert figure_names(document) == []
    assert "by formula" in text_of(document)


def test_a_difference_between_the_forms_is_explained(forecast: ServingForecast):
    assert "the events are right" not in text_of(document_of(forecast))
    assert forecast.other is not None
    slow = replace(forecast.other, mean_batch=2 * forecast.mean_batch)
    assert "the events are right" in text_of(document_of(replace(forecast, other=slow)))


def test_what_does_not_fit_comes_first(forecast: ServingForecast):
    document = document_of(replace(forecast, fits=(fit_of(90 * GIB, 80 * GIB),)))
    assert document.verdict.startswith("Does not fit")


def test_lost_places_are_said(forecast: ServingForecast):
    assert forecast.played is not None
    preempted = replace(forecast.played, preemptions=forecast.played.preemptions + 1)
    text = text_of(document_of(replace(forecast, played=preempted)))
    assert "200 times a request lost its room" in text


def test_figures_that_nobody_asked_for_are_left_out(forecast: ServingForecast):
    rates = replace(
        forecast.rates,
        goodput_requests_per_second=None,
        dollars_per_million_input_tokens=None,
        dollars_per_million_output_tokens=None,
        joules_per_million_input_tokens=None,
        joules_per_million_output_tokens=None,
    )
    text = text_of(document_of(replace(forecast, rates=rates)))
    assert "million" not in text
    assert "Within the limits" not in text


def test_the_page_holds_all_figures(forecast: ServingForecast):
    page = render_page(document_of(forecast))
    for name in ("first-token", "output-token", "requests", "held-tokens"):
        assert f'id="figure-{name}"' in page


def test_deployments_and_loads_in_words():
    apart = Disaggregated(Pool(Plan(tensor_parallel=4), 2), Pool(Plan(data_parallel=8, expert_parallel=8)))
    assert describe_deployment(apart) == "2 × tp=4 read, dp=8 ep=8 write"
    assert describe_deployment(Aggregated(Pool(Plan()))) == "one device"
    loads = (OpenLoad(3), OpenLoad(3, 2), RecordedLoad(), SaturatedLoad())
    assert [describe_load(load) for load in loads] == [
        "3 requests/s (Poisson)",
        "3 requests/s (burstiness 2)",
        "requests as recorded",
        "all requests at once",
    ]


def test_answers_of_one_token_have_no_speed(forecast: ServingForecast):
    none = Latency(between(0.0), between(0.0), between(0.0), between(0.0))
    text = text_of(document_of(replace(forecast, time_per_output_token=none)))
    for words in ("Speed for a user", "Time per output token", "for a user", "0.00 ns"):
        assert words not in text
    assert "Time to first token" in text


def test_intervals_that_hold_nothing_are_written(forecast: ServingForecast):
    rates = replace(forecast.rates, output_tokens_per_second_per_user=between(0.0))
    assert "tokens/s" in text_of(document_of(replace(forecast, rates=rates)))
