"""``perfcast trace record``."""

from __future__ import annotations

import click

from perfcast.errors import PerfcastError


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--out", "folder", default="traces", show_default=True, metavar="DIR", help="A new folder.")
@click.option("--steps", "num_steps", type=click.IntRange(1), default=3, show_default=True, help="To record.")
@click.option(
    "--skip", "num_skipped", type=click.IntRange(1), default=5, show_default=True, help="Steps to warm up."
)
@click.option(
    "--timed",
    "num_timed",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Steps that are only timed, before and again after: the slow-down is measured against them.",
)
@click.option(
    "--shapes/--no-shapes",
    "has_shapes",
    default=False,
    help="Of arguments, in the timeline too; slower; default: only beside the execution trace.",
)
@click.option(
    "--execution-trace/--no-execution-trace",
    "has_execution_trace",
    default=True,
    help="Of one more step, with a timeline of it; default: yes.",
)
@click.option("--stop", "stops_after", is_flag=True, help="End the program when all is recorded.")
@click.option("--json", "json_path", metavar="FILE", help="JSON; '-' is standard output.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def record(
    folder: str,
    num_steps: int,
    num_skipped: int,
    num_timed: int,
    has_shapes: bool,
    has_execution_trace: bool,
    stops_after: bool,
    json_path: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND (python train.py …, torchrun …) and record some steps of every rank.

    \b
    perfcast trace record --out traces -- python train.py

    Steps are counted by the first optimizer; a program without one, or whose steps are something else,
    calls perfcast.trace_step() at the end of each. Write -- before COMMAND.
    """
    from rich.console import Console

    from perfcast.files import check_writable
    from perfcast.report.json_format import write_json
    from perfcast.report.recording import print_recording, recording_to_dict
    from perfcast.traces.record.launch import record as run
    from perfcast.traces.record.recorder import Request

    check_writable(json_path)
    request = Request(folder, num_skipped, num_steps, num_timed, has_shapes, has_execution_trace, stops_after)
    found = run(command, request)
    if json_path is not None:
        write_json(recording_to_dict(found), json_path)
    if json_path != "-":
        print_recording(found, Console(highlight=False, soft_wrap=True))
    if found.is_interrupted:
        raise KeyboardInterrupt
    if found.exit_code:
        raise PerfcastError(f"the recorded command ended with exit code {found.exit_code}")
