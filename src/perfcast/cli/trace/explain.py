"""``perfcast trace explain``."""

from __future__ import annotations

import click

from perfcast.cli.options.shared import output_options
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
    json_path: str | None,
    html: str | None,
    timeline: str | None,
) -> None:
    """Say where the time of recorded steps went.

    \b
    perfcast trace explain traces/rank*.kineto.json.gz --html explained.html
    perfcast trace explain after.json --compare before.json

    TRACE is a recording of PyTorch's profiler (JSON, gzip, tar), one for each rank, or an archive of all
    ranks; 'perfcast trace record' makes them. With --compare, OTHER is what it was before.
    """
    from perfcast.files import check_writable
    from perfcast.traces.explain.compare import compare_explanations
    from perfcast.traces.explain.recordings import explain as explain_traces
    from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs

    for path in (json_path, html, timeline):
        check_writable(path)
    recorded = read_ranks_with_inputs(traces, max_bytes=max_bytes, is_truncated_allowed=allow_truncated)
    explanation = explain_traces(recorded)
    comparison = None
    if compare:
        before = explain_traces(
            read_ranks_with_inputs(compare, max_bytes=max_bytes, is_truncated_allowed=allow_truncated)
        )
        comparison = compare_explanations(before, explanation)
    if json_path:
        from perfcast.report.json_format import write_json
        from perfcast.report.trace_json import explanation_to_dict

        write_json(explanation_to_dict(explanation, comparison), json_path)
    if html:
        from perfcast.files import write_text_atomically
        from perfcast.report.trace_html import render_explanation_html

        write_text_atomically(html, render_explanation_html(explanation, comparison))
    if timeline:
        from perfcast.report.json_format import write_exact_json
        from perfcast.report.trace_timeline import explanation_to_trace_events

        write_exact_json(explanation_to_trace_events(explanation, recorded), timeline)
    if json_path != "-":
        from rich.console import Console

        from perfcast.report.trace_text import print_comparison, print_explanation

        console = Console(highlight=False)
        print_explanation(explanation, console)
        if comparison:
            print_comparison(comparison, console)
        for path in filter(None, (json_path, html, timeline)):
            console.print(f"wrote {path}", markup=False)
