"""``perfcast memory``."""

from __future__ import annotations

from typing import Any

import click

from perfcast.cli.options import output_options, request_options, workload_options


@click.command()
@workload_options
@output_options(html=True, timeline=False)
def memory(model: str, device: str, json_path: str | None, html: str | None, **options: Any) -> None:
    """Forecast the memory of one step of MODEL: the peak, what it consists of, and whether it fits."""
    from perfcast.files import check_writable
    from perfcast.prediction import predict_memory

    for path in (json_path, html):
        check_writable(path)
    forecast = predict_memory(model, device, **request_options(**options))
    if json_path:
        from perfcast.report.json_format import memory_to_dict, write_json

        write_json(memory_to_dict(forecast), json_path)
    if html:
        from perfcast.files import write_text_atomically
        from perfcast.report.html import render_memory_html

        write_text_atomically(html, render_memory_html(forecast))
    if json_path != "-":
        from rich.console import Console

        from perfcast.report.text import print_memory

        print_memory(forecast, Console(highlight=False))
