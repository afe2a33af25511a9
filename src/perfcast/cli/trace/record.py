"""``perfcast trace record``."""

from __future__ import annotations

import click

from perfcast.cli.options.numbers import Whole
from perfcast.cli.options.places import OUTPUT_FOLDER
from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.errors import PerfcastError, TraceError
from perfcast.ranges import COUNT, Range


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--output",
    "--out",
    "folder",
    type=OUTPUT_FOLDER,
    default="traces",
    show_default=True,
    metavar="DIR",
    help="A new folder.",
)
@click.option("--steps", "num_steps", type=Whole(COUNT), default=3, show_default=True, help="To record.")
@click.option(
    "--skip", "num_skipped", type=Whole(COUNT), default=5, show_default=True, help="Steps to warm up."
)
@click.option(
    "--timed",
    "num_timed",
    type=Whole(Range(0, COUNT.largest)),
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
@output_options()
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def record(
    folder: str,
    num_steps: int,
    num_skipped: int,
    num_timed: int,
    has_shapes: bool,
    has_execution_trace: bool,
    stops_after: bool,
    outputs: Outputs,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND (python train.py …, torchrun …) and record some steps of every rank.

    \b
    perfcast trace record --out traces -- python train.py

    Steps are counted by the first optimizer; a program without one, or whose steps are something else,
    calls perfcast.trace_step() at the end of each. Write -- before COMMAND.
    """
    from perfcast.report.data.traces.recordings import recording_data
    from perfcast.report.documents.traces.recordings import recording_document
    from perfcast.traces.record.launch import record as run
    from perfcast.traces.record.recorder import Request

    request = Request(folder, num_skipped, num_steps, num_timed, has_shapes, has_execution_trace, stops_after)
    found = run(command, request, prints_apart=outputs.takes_terminal)
    write_answer(outputs, lambda: recording_document(found), lambda: recording_data(found))
    if found.is_interrupted:
        raise KeyboardInterrupt
    lacking = [rank for rank in found.ranks if not rank.files]
    if lacking:
        raise TraceError(f"rank {lacking[0].rank} recorded nothing: {lacking[0].problem}")
    if found.exit_code:
        raise PerfcastError(f"the recorded command ended with exit code {found.exit_code}")
