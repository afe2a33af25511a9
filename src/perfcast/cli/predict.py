"""``perfcast predict``."""

from __future__ import annotations

from typing import Any

import click

from perfcast.cli.options import output_options, request_options, workload_options


@click.command()
@workload_options
@click.option("--cost-model", default="roofline", show_default=True, help="roofline or linear.")
@output_options(html=True, timeline=True)
def predict(
    model: str,
    device: str,
    cost_model: str,
    json_path: str | None,
    html: str | None,
    timeline: str | None,
    **options: Any,
) -> None:
    """Forecast time and memory of one step of MODEL.

    MODEL is a catalog name, a Hugging Face config.json or its folder, or FILE.py:FUNCTION, where the
    function returns a module and its example inputs.
    """
    from perfcast.files import check_writable
    from perfcast.prediction import predict as forecast_step

    for path in (json_path, html, timeline):
        check_writable(path)
    forecast = forecast_step(model, device, cost_model=cost_model, **request_options(**options))
    if json_path:
        from perfcast.report.json_format import forecast_to_dict, write_json

        write_json(forecast_to_dict(forecast), json_path)
    if html:
        from perfcast.files import write_text_atomically
        from perfcast.report.html import render_forecast_html

        write_text_atomically(html, render_forecast_html(forecast))
    if timeline:
        from perfcast.report.json_format import write_json
        from perfcast.traces.perfetto import forecast_to_trace_events

        write_json(forecast_to_trace_events(forecast), timeline)
    if json_path != "-":
        from rich.console import Console

        from perfcast.report.text import print_forecast

        console = Console(highlight=False)
        print_forecast(forecast, console)
        for path in filter(None, (json_path, html, timeline)):
            console.print(f"wrote {path}", markup=False)
