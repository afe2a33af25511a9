from made_up_programs import KERNELS
from made_up_steps import step_forecast
from perfcast.core.plan import Plan
from perfcast.prediction.sweep.batches import BatchesForecast, BatchPoint, Phase
from perfcast.report.data.batches import data_of
from perfcast.report.documents.batches import document_of, seconds_figure
from perfcast.report.page import render_page
from perfcast.units import GIB
from rendered import json_of, text_of


def made_up_serving() -> BatchesForecast:
    prefill = Phase(0.5, 0.4, 0.6, 8000.0, step_forecast(mode="prefill"))
    decode = Phase(0.02, 0.01, 0.03, 400.0, step_forecast(mode="decode"))
    points = (
        BatchPoint(8, 2048, prefill, decode, 20 * GIB, True),
        BatchPoint(64, 2048, prefill, decode, 200 * GIB, False),
        BatchPoint(3, 2048, None, None, 0, False, "3 is no multiple of dp=2"),
    )
    return BatchesForecast(
        "a-model", "a-cluster", "h100-sxm", 8, Plan(tensor_parallel=8), "bf16", KERNELS, "roofline",
        80 * GIB, points, ((2048, 40), (10**6, 0)), ("as always",),
    )  # fmt: skip


def test_the_table_has_times_rates_and_what_the_memory_holds_within_80_columns() -> None:
    text = text_of(document_of(made_up_serving()))
    for words in ("500 ms", "20.0 ms", "50.0", "1.00 k", "20.0 GiB", "does not fit", "no multiple of dp=2",
                  "holds 40 sequences", "holds no sequence of 1,000,000", "as always"):  # fmt: skip
        assert words in text
    assert max(map(len, text.splitlines())) <= 80


def test_json_has_seconds_with_their_interval_and_rates_of_a_device() -> None:
    data = json_of(data_of(made_up_serving()))
    first, _, missing = data["points"]
    assert first["time_per_output_token"]["tokens_per_second_per_device"] == 50.0
    assert first["time_to_first_token"]["seconds_high"] == 0.6
    assert missing["time_to_first_token"] is None
    assert data["largest_batches"][0] == {"context_length": 2048, "batch_size": 40}


def test_the_page_plots_what_was_forecast() -> None:
    html = render_page(document_of(made_up_serving()))
    for name in ("figure-trade", "figure-decode", "figure-prefill"):
        assert name in html
    (line,) = seconds_figure(made_up_serving(), "decode").series
    assert line.x == (8, 64)
    assert line.symbols == ("circle", "circle-open")
