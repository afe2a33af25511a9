"""``perfcast trace explain``."""

from __future__ import annotations

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.trace.options import limit_option


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("--compare", metavar="OTHER", multiple=True, help="Another run: what changed since.")
@click.option("--allow-truncated", is_flag=True, help="Read what is whole of a file that ends early.")
@limit_option
@output_options(html=True, timeline=True)
def explain(
    traces: tuple[str, ...],
    compare: tuple[str, ...],
    allow_truncated: bool,
    max_bytes: int,
    outputs: Outputs,
) -> None:
    """Say where the time of recorded steps went.

    \b
    perfcast trace explain traces/rank*.kineto.json.gz --html explained.html
    perfcast trace explain after.json --compare before.json

    TRACE is a recording of PyTorch's profiler (JSON, gzip, tar), one for each rank, or an archive of all
    ranks; 'perfcast trace record' makes them. With --compare, OTHER is what it was before.
    """
    from perfcast.report.data.traces.explained import data_of
    from perfcast.report.documents.traces.explained import document_of
    from perfcast.report.timelines.explained import events_of
    from perfcast.report.trace_events import trace_events
    from perfcast.traces.explain.compare import compare_explanations
    from perfcast.traces.explain.recordings import explain as explain_traces
    from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs

    recorded = read_ranks_with_inputs(traces, max_bytes=max_bytes, is_truncated_allowed=allow_truncated)
    explanation = explain_traces(recorded)
    comparison = None
    if compare:
        before = explain_traces(
            read_ranks_with_inputs(compare, max_bytes=max_bytes, is_truncated_allowed=allow_truncated)
        )
        comparison = compare_explanations(before, explanation)
    write_answer(
        outputs,
        lambda: document_of(explanation, comparison),
        lambda: data_of(explanation, comparison),
        lambda: trace_events(events_of(explanation, recorded)),
    )
