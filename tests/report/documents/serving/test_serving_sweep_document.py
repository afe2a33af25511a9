from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.forecast.serving_sweep import ServingSweep
from perfcast.report.documents.serving.sweep import document_of, front_of
from perfcast.report.figure import Curve
from perfcast.report.page import render_page
from rendered import figure_of, text_of
from serving_forecasts import between, sweep


@pytest.fixture(scope="module")
def found() -> ServingSweep:
    return sweep()


def forecasts_of(found: ServingSweep) -> list[ServingForecast]:
    return [point.forecast for point in found.points if point.forecast is not None]


def placed(forecast: ServingForecast, user: float, device: float) -> ServingForecast:
    rates = replace(
        forecast.rates,
        output_tokens_per_second_per_user=between(user),
        output_tokens_per_second_per_device=between(device),
    )
    return replace(forecast, rates=rates)


def places(forecasts: Sequence[ServingForecast]) -> list[tuple[float, float]]:
    return [
        (
            one.rates.output_tokens_per_second_per_user.value,
            one.rates.output_tokens_per_second_per_device.value,
        )
        for one in forecasts
    ]


def test_the_front_is_what_no_other_beats_in_both(found: ServingSweep):
    points = [(100, 10), (80, 30), (70, 20), (50, 40), (40, 40)]
    made = [placed(forecasts_of(found)[0], *point) for point in points]
    assert places(front_of(made)) == [(100, 10), (80, 30), (50, 40)]


def test_every_deployment_has_a_line_over_its_loads(found: ServingSweep):
    figure = figure_of(document_of(found), "front")
    curves = [series for series in figure.series if isinstance(series, Curve)]
    assert [curve.name for curve in curves] == [
        "tp=2 on 2 × h100-sxm",
        "tp=4 on 4 × h100-sxm",
        "Pareto front",
    ]
    assert [len(curve.x) for curve in curves[:2]] == [4, 4]
    # More clients: a device yields more, and each user sees less.
    for curve in curves[:2]:
        assert list(curve.x) == sorted((float(x or 0) for x in curve.x), reverse=True)
        assert list(curve.y) == sorted(float(y or 0) for y in curve.y)


def test_the_table_marks_the_front_within_80_columns(found: ServingSweep):
    text = text_of(document_of(found))
    assert max(map(len, text.splitlines())) <= 80
    rows = [line for line in text.splitlines() if line.startswith("●  ")]
    assert len(rows) == len(front_of(forecasts_of(found)))
    for words in ("concurrency", "$/Mtok", "no multiple of tp=3"):
        assert words in text


def test_what_all_points_share_is_said_once(found: ServingSweep):
    document = document_of(ServingSweep(found.points[:4]))
    assert document.lead.startswith("over plan, concurrency · tp=2 · prompts of")
    assert document_of(found).lead.startswith("over plan, concurrency · prompts of")


def test_the_page_holds_the_plot(found: ServingSweep):
    assert 'id="figure-front"' in render_page(document_of(found))
