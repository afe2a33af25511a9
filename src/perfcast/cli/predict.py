"""``perfcast predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options import output_options, request_options, workload_options

if TYPE_CHECKING:
    from perfcast.cost.model import CostModel


@click.command()
@workload_options
@click.option(
    "--cost-model", help="learned (default), roofline, linear (default for cpu), or a published one."
)
@click.option("--framework", help="Whose kernels run: pytorch, sglang, trtllm, vllm. Default: pytorch.")
@click.option("--weights", metavar="DIR", help="Trained models for learned; default: the shipped ones.")
@output_options(html=True, timeline=True)
def predict(
    model: str,
    device: str,
    cost_model: str | None,
    framework: str | None,
    weights: str | None,
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
    pricing = find_cost_model(cost_model, device)
    forecast = forecast_step(
        model, device, cost_model=pricing, framework=framework, weights=weights, **request_options(**options)
    )
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


def find_cost_model(name: str | None, device: str) -> str | CostModel | None:
    """A published predictor by its name; the cost models of the package stay names.

    Raises:
        UnknownNameError: Neither.
        InputError: It prices kernels alone, or is not trained.
    """
    from perfcast.errors import UnknownNameError
    from perfcast.prediction import COST_MODELS, resolve_device

    if name is None or name in COST_MODELS:
        return name
    from perfcast.published.registry import PREDICTORS, load_cost_model
    from perfcast.published.store import predictor_folder

    published = [key for key, entry in PREDICTORS.items() if entry.cost_model]
    if name not in PREDICTORS:
        known = (*COST_MODELS, *published)
        raise UnknownNameError("cost model", name, known, f"Known: {', '.join(known)}.")
    vendor = "amd" if resolve_device(device).vendor == "amd" else "nvidia"
    return load_cost_model(name, predictor_folder(name, seed=0, vendor=vendor))
