"""``perfcast trace overheads``."""

from __future__ import annotations

import click

from perfcast.cli.options.places import OUTPUT_FILE
from perfcast.cli.output import print_answer
from perfcast.cli.trace.options import limit_option, step_numbers, steps_option


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("--output", type=OUTPUT_FILE, required=True, metavar="FILE", help="The profile, as JSON.")
@click.option("--host", default="", help="What to call the host: its processor, for example.")
@click.option("--framework", default="", help="And the framework with its version.")
@steps_option
@limit_option
def overheads(
    traces: tuple[str, ...],
    output: str,
    host: str,
    framework: str,
    steps: tuple[int, int] | None,
    max_bytes: int,
) -> None:
    """Fit host overheads to recorded steps, for 'trace forecast --overheads'.

    \b
    perfcast trace overheads rank*.json --steps 10:12 --output host.json
    perfcast trace forecast rank*.json --steps 13 --overheads host.json

    Profiles are of a host and a framework; programs that run the same operators may share one, and so may
    other steps of a recording: what one step had of the host is then forecast, not copied. What the
    profiler's start cost the first recorded step is left out.
    """
    from perfcast.files.writing import check_writable
    from perfcast.report.documents.traces.recordings import overheads_document
    from perfcast.traces.kineto.reader import read_ranks
    from perfcast.traces.overheads.profile import fit_overheads
    from perfcast.traces.overheads.store import save_overheads
    from perfcast.traces.timeline.ranks import build_ranks
    from perfcast.traces.timeline.startup import without_startup

    check_writable(output)
    recorded = read_ranks(traces, max_bytes=max_bytes)
    programs = build_ranks(recorded, step_numbers(steps))
    plain = [without_startup(trace, program) for trace, program in zip(recorded, programs, strict=True)]
    profile = fit_overheads(plain, host=host, framework=framework)
    save_overheads(profile, output)
    print_answer(overheads_document(profile), (f"wrote {output}",))
