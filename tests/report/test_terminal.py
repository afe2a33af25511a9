from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from builders import small_forecast
from perfcast.core.forecast.device import Forecast
from perfcast.report.blocks import share_table
from perfcast.report.document import Document
from perfcast.report.documents import catalog
from perfcast.report.documents.evidence.validation import error_table
from perfcast.report.documents.memory import device as memory
from perfcast.report.documents.step import device as step
from perfcast.report.terminal import print_document
from perfcast.units import format_bytes, format_seconds
from rendered import text_of

SUMMARY = {
    "predictor": "wave_scaling",
    "group": "device",
    "value": "h100_sxm",
    "n": 1200,
    "skipped": 3,
    "mean_absolute_relative_error": 0.123,
    "median_absolute_relative_error": 0.08,
    "p90_absolute_relative_error": 0.3,
    "mean_relative_error": 0.021,
    "coverage": None,
}


def test_a_forecast_prints_its_headline_figures(forecast: Forecast) -> None:
    output = text_of(step.document_of(forecast))
    for expected in (
        "tiny on NVIDIA H100 SXM",
        format_seconds(forecast.step_seconds),
        format_seconds(forecast.step_seconds_high),
        "tokens/s",
        f"{100 * forecast.mfu:.1f} %",
        f"{format_bytes(forecast.memory.peak_bytes)} of 80.0 GiB: fits",
        "backward",
        "attention",
        "h.1.mlp.act",
        *forecast.assumptions,
    ):
        assert expected in output


@pytest.mark.parametrize("document_of", [step.document_of, memory.document_of])
def test_nothing_is_wider_than_80_columns(document_of: Callable[[Forecast], Document]) -> None:
    forecast = small_forecast("m" * 70, num_layers=12)
    output = text_of(document_of(forecast))
    assert max(len(line.rstrip()) for line in output.splitlines()) <= 80


def test_a_model_that_does_not_fit_says_by_how_much_without_colour() -> None:
    forecast = small_forecast(capacity_bytes=2**27)
    too_much = format_bytes(forecast.memory.peak_bytes - 2**27)
    for document_of in (step.document_of, memory.document_of):
        output = text_of(document_of(forecast))
        assert f"does not fit, {too_much} too much" in output


def test_markup_in_a_name_is_printed_and_not_obeyed() -> None:
    forecast = replace(small_forecast("x[bold]y[/]"), cost_model="[red]z", assumptions=("[dim]kept[/dim]",))
    output = text_of(step.document_of(forecast))
    assert "x[bold]y[/]" in output
    assert "[red]z" in output
    assert "[dim]kept[/dim]" in output


def test_a_step_without_any_operation_still_prints(forecast: Forecast) -> None:
    empty = replace(forecast, by_kind=(), by_module=(), operations=(), seconds_by_phase={}, assumptions=())
    assert "Step time" in text_of(step.document_of(empty))


def test_share_bars_fall_back_to_plain_characters() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", errors="replace")
    console = Console(file=stream, width=80)
    print_document(step.document_of(small_forecast()), console)
    console.file.flush()
    assert b"####" in stream.buffer.getvalue()


def test_the_kind_is_bound_by_what_limits_most_of_its_time(forecast: Forecast) -> None:
    limits = step.bound_by_kind(forecast.operations)
    assert (limits["matmul"], limits["elementwise"]) == ("compute", "memory")


def test_a_device_prints_each_source_once_and_refers_to_it() -> None:
    figures = [
        {"name": "memory_bandwidth", "value": 3350.0, "unit": "GB/s", "source": "Datasheet (2023)"},
        {"name": "power", "value": 700.0, "unit": "W", "source": "Datasheet (2023)"},
        {"name": "num_sms", "value": 132, "unit": "1", "source": "Whitepaper"},
    ]
    device = {"name": "h100_sxm", "title": "NVIDIA H100 SXM", "note": "Nominal."}
    output = text_of(catalog.device_document(device, figures))
    assert "3350 GB/s" in output
    assert output.count("Datasheet (2023)") == 1
    assert output.count("[1]") == 3
    assert output.count("[2]") == 2


def test_lists_never_cut_a_name_short() -> None:
    device = {
        "name": "rtx_pro_6000_blackwell_server",
        "title": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "year": 2025,
        "memory_bytes": 96 * 2**30,
        "memory_bytes_per_second": 1.597e12,
        "matrix_flops_per_second": None,
    }
    output = text_of(catalog.devices_document([device]))
    assert "rtx_pro_6000_blackwell_server" in output
    assert "1.60 TB/s" in output
    model = {"name": "gpt2-large", "title": "GPT-2 large", "family": "gpt2", "parameter_count": 774e6}
    assert "774 M" in text_of(catalog.models_document([model]))
    assert "GPT-2 large" in text_of(catalog.model_document(model, []))


def test_a_validation_table_shows_percent_and_marks_what_is_missing() -> None:
    output = text_of(Document(title="", blocks=(error_table([SUMMARY]),)))
    line = next(line for line in output.splitlines() if "wave_scaling" in line)
    assert line.split()[-5:] == ["12.3", "8.0", "30.0", "+2.1", "–"]


def test_what_rounds_to_nothing_is_left_out_of_a_table_of_shares():
    table = share_table("Parts", "Part", {"large": 1.0, "tiny": 1e-5, "small": 0.01})
    text = text_of(Document(title="t", blocks=(table,)))
    assert "large" in text
    assert "small" in text
    assert "tiny" not in text
    only = share_table("Parts", "Part", {"tiny": 1e-5}, total=1.0)
    assert "tiny" in text_of(Document(title="t", blocks=(only,)))
