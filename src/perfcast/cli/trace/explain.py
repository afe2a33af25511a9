"""``perfcast trace explain``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.cli.trace.options import asked_limit_option
from perfcast.verbs.trace_explain.question import ExplainQuestion


@click.command()
@asking(
    ExplainQuestion,
    click.argument("traces", nargs=-1, required=True, metavar="TRACE..."),
    click.option("--compare", metavar="OTHER", multiple=True),
    click.option("--allow-truncated", is_flag=True),
    asked_limit_option,
)
@output_options(html=True, timeline=True)
def explain(asked: ExplainQuestion, outputs: Outputs) -> None:
    """Say where the time of recorded steps went.

    \b
    perfcast trace explain traces/rank*.kineto.json.gz --html explained.html
    perfcast trace explain after.json --compare before.json

    TRACE is a recording of PyTorch's profiler (JSON, gzip, tar), one for each rank, or an archive of all
    ranks; 'perfcast trace record' makes them. With --compare, OTHER is what it was before.
    """
    from perfcast.verbs.trace_explain.answer import answer

    with status("explaining recordings") as on_progress:
        result = answer(asked, on_progress=on_progress)
    write_result(outputs, result)
