"""``perfcast trace info``."""

from __future__ import annotations

import click

from perfcast.cli.trace.options import limit_option


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE…")
@limit_option
@click.option("--json", "json_path", metavar="FILE", help="JSON; '-' is standard output.")
def info(paths: tuple[str, ...], max_bytes: int, json_path: str | None) -> None:
    """Say what trace files are: format, device, ranks, steps, operators, kernels, collectives.

    FILE is a timeline or an execution trace of PyTorch's profiler: JSON, gzip, or tar of either.
    """
    from rich.console import Console

    from perfcast.files import check_writable
    from perfcast.report.json_format import write_json
    from perfcast.report.recording import print_summaries, summaries_to_dict
    from perfcast.traces.summary import summarize

    check_writable(json_path)
    found = summarize(paths, max_bytes)
    if json_path is not None:
        write_json(summaries_to_dict(found), json_path)
    if json_path != "-":
        print_summaries(found, Console(highlight=False, soft_wrap=True))
