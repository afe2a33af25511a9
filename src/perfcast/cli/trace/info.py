"""``perfcast trace info``."""

from __future__ import annotations

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.trace.options import limit_option


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE…")
@limit_option
@output_options()
def info(paths: tuple[str, ...], max_bytes: int, outputs: Outputs) -> None:
    """Say what trace files are: format, device, ranks, steps, operators, kernels, collectives.

    FILE is a timeline or an execution trace of PyTorch's profiler: JSON, gzip, or tar of either.
    """
    from perfcast.report.data.traces.recordings import files_data
    from perfcast.report.documents.traces.recordings import files_document
    from perfcast.traces.summary import summarize

    found = summarize(paths, max_bytes)
    write_answer(outputs, lambda: files_document(found), lambda: files_data(found))
