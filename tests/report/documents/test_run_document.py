import math

import pytest

from made_up_steps import step_forecast
from perfcast.catalogs.devices import load_device
from perfcast.prediction.request.run import RunRequest
from perfcast.prediction.run.predict import RunForecast, forecast_run
from perfcast.report.answers import to_plain
from perfcast.report.data.run import data_of
from perfcast.report.document import Document
from perfcast.report.documents.run import run_parts, run_section
from perfcast.report.page import render_page
from rendered import text_of


def made_up_run(**request: object) -> RunForecast:
    asked = RunRequest(tokens=1e12, **request)  # type: ignore[arg-type]
    return forecast_run(step_forecast(), asked, load_device("h100-sxm"), 10**13)


def document_of(run: RunForecast) -> Document:
    return Document(title="run", blocks=(run_section(run),))


def test_the_text_has_days_device_hours_energy_and_dollars() -> None:
    text = text_of(document_of(made_up_run(dollars_per_device_hour=2.0, is_asynchronous=True)), 200)
    for words in (
        "days",
        "Device-hours",
        "Goodput",
        "Wh, of the site",
        "dollars",
        "beside the steps",
        "MegaScale",
    ):
        assert words in text


def test_without_a_price_the_text_says_how_to_give_one() -> None:
    assert "no price given (--price)" in text_of(document_of(made_up_run()))


def test_the_parts_shown_add_up_to_the_run() -> None:
    run = made_up_run()
    assert sum(seconds for _, seconds in run_parts(run)) == pytest.approx(run.seconds)


def test_json_knows_no_infinity() -> None:
    run = made_up_run(between_interruptions_seconds=math.inf)
    data = to_plain(data_of(run))
    assert isinstance(data, dict)
    assert data["between_interruptions_seconds"] is None
    assert data["goodput"] == run.goodput
    assert data["checkpoints"]["num_bytes"] == 10**13


def test_the_page_shows_where_the_time_goes() -> None:
    html = render_page(document_of(made_up_run(dollars_per_device_hour=2.0)))
    assert "figure-run" in html
    assert "The whole run" in html
