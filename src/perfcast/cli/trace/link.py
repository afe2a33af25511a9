"""``perfcast trace link``."""

from __future__ import annotations

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.trace.options import limit_option


@click.command()
@click.argument("execution_trace", metavar="EXECUTION_TRACE")
@click.argument("timeline", metavar="TIMELINE")
@limit_option
@output_options()
def link(execution_trace: str, timeline: str, max_bytes: int, outputs: Outputs) -> None:
    """Join an execution trace with the timeline of the same rank (or archives of all ranks), and say how
    much of each was found in the other.
    """
    from perfcast.report.data.traces.recordings import links_data
    from perfcast.report.documents.traces.recordings import links_document
    from perfcast.traces.execution_trace.reader import read_execution_traces
    from perfcast.traces.kineto.reader import read_ranks
    from perfcast.traces.link.report import report_links

    reports = report_links(
        read_execution_traces([execution_trace], max_bytes=max_bytes),
        read_ranks([timeline], max_bytes=max_bytes),
    )
    write_answer(outputs, lambda: links_document(reports), lambda: links_data(reports))
