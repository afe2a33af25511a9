"""``perfcast trace forecast``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.cli.trace.options import asked_limit_option
from perfcast.verbs.trace_forecast.question import TraceForecastQuestion


@click.command()
@asking(
    TraceForecastQuestion,
    click.argument("traces", nargs=-1, required=True, metavar="TRACE..."),
    click.option("--device", metavar="NAME"),
    click.option("--recorded-device", metavar="NAME"),
    click.option("--cost-model"),
    click.option("--dtype", metavar="tf32"),
    click.option("--batch-size", type=int),
    click.option("--recorded-batch-size", type=int),
    click.option("--second", multiple=True, metavar="TRACE"),
    click.option("--second-batch-size", type=int),
    click.option("--cluster", metavar="NAME:N"),
    click.option("--world-size", type=int),
    click.option("--host", metavar="NAME"),
    click.option("--recorded-host", metavar="NAME"),
    click.option("--overheads", metavar="FILE"),
    click.option("--what-if", multiple=True, metavar="CHANGE"),
    click.option("--steps", metavar="A:B"),
    asked_limit_option,
)
@output_options(html=True)
def forecast(asked: TraceForecastQuestion, outputs: Outputs) -> None:
    """Forecast recorded steps elsewhere, or changed.

    \b
    perfcast trace forecast step.json --device h200
    perfcast trace forecast rank*.json --what-if speed:gemm=2 --what-if overlap
    perfcast trace forecast a.json --recorded-batch-size 8 --second b.json --second-batch-size 24 \
        --batch-size 16

    TRACE is a recording of PyTorch's profiler, one for each rank, or an archive of all ranks. Another device
    or batch needs the shapes of operators' arguments: recorded with them (record_shapes=True), or by
    'perfcast trace record', whose NAME.linked.json.gz is read beside NAME.kineto.json.gz.
    """
    from perfcast.verbs.trace_forecast.answer import answer

    with status("forecasting from recordings") as on_progress:
        result = answer(asked, on_progress=on_progress)
    write_result(outputs, result)
