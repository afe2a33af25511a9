from __future__ import annotations

from dataclasses import replace

from builders import small_forecast
from perfcast.core.forecast.device import Forecast, HostShare
from perfcast.report.data.step import data_of
from perfcast.report.documents.step.device import document_of

HOST = HostShare("slow", "a slow processor", True, "eager", 8e-3, 6e-3, 4e-3, 9e-3, 5e-3)


def said(found: Forecast) -> str:
    return " ".join(fact.text for fact in document_of(found).facts)


def test_the_part_that_the_host_dictates_is_said_with_what_would_help():
    found = replace(small_forecast(), step_seconds=10e-3, exposed_host_seconds=6e-3, host=HOST)
    text = said(found)
    assert "a slow processor, usual with this device: issues the step in 8.00 ms" in text
    assert "dictates 6.00 ms of the step (60.0 %; 4.00 ms to 9.00 ms)" in text
    assert "--compile, --cuda-graphs or a larger batch would help: a CUDA graph saves 5.00 ms" in text
    assert data_of(found).host == HOST


def test_a_host_that_is_hardly_waited_for_is_only_named():
    found = replace(small_forecast(), step_seconds=10.0, exposed_host_seconds=6e-3, host=HOST)
    assert "dictates" not in said(found)
    assert "a slow processor" in said(found)


def test_without_a_host_nothing_is_said_of_it():
    assert "issues the step" not in said(small_forecast())
    assert data_of(small_forecast()).host is None
