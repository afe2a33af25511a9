"""``perfcast trace info``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.cli.trace.options import asked_limit_option
from perfcast.verbs.trace_info.question import TraceInfoQuestion


@click.command()
@asking(
    TraceInfoQuestion,
    click.argument("paths", nargs=-1, required=True, metavar="FILE…"),
    asked_limit_option,
)
@output_options()
def info(asked: TraceInfoQuestion, outputs: Outputs) -> None:
    """Say what trace files are: format, device, ranks, steps, operators, kernels, collectives.

    FILE is a timeline or an execution trace of PyTorch's profiler: JSON, gzip, or tar of either.
    """
    from perfcast.verbs.trace_info.answer import answer

    with status("reading") as on_progress:
        found = answer(asked, on_progress=on_progress)
    write_result(outputs, found)
