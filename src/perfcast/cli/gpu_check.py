"""``perfcast gpu-check``."""

from __future__ import annotations

from pathlib import Path

import click

from perfcast.cli.options.numbers import Number
from perfcast.cli.options.places import OUTPUT_FILE
from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.progress import status
from perfcast.ranges import SECONDS


@click.command(name="gpu-check")
@click.option(
    "--output", type=OUTPUT_FILE, metavar="FILE", default="gpu-check.json", show_default=True,
    help="The file that is written, whole, after every part.",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True,
    help="cuda: NVIDIA's or AMD's GPU; cpu: a dry run of small sizes.",
)  # fmt: skip
@click.option(
    "--part", "parts", multiple=True, metavar="NAME", help="This alone; may be repeated; models: all of them."
)
@click.option(
    "--budget", type=Number(SECONDS), default=1200.0, show_default=True,
    help="Seconds; what does not fit is left out and said.",
)  # fmt: skip
@click.option("--restart", is_flag=True, help="Begin anew; what was found stays beside (.old).")
@click.option("--from", "source", metavar="FILE", help="Show the file of a check; nothing is run.")
@output_options(html=True)
def gpu_check(
    output: str,
    device: str,
    parts: tuple[str, ...],
    budget: float,
    restart: bool,
    source: str | None,
    outputs: Outputs,
) -> None:
    """Measure a GPU in twenty minutes beside what is forecast for it, into one file.

    A calibration; ten training steps, each with what the allocator reserves and how long it takes; kernels;
    the simulated allocator with streams; a recorded program played again; collectives where there are two
    devices. Every part runs in a process of its own: one that fails is written as failed with its reason, and
    the others go on. Ctrl-C loses no part that is done; the next run goes on. With --from a file of another
    machine is shown.

    Exit codes: 0 all parts done (or this machine has not what they take), 1 a part failed or had no time,
    2 no GPU here.
    """
    from perfcast.errors import IncompleteError, InputError
    from perfcast.evidence.gpu_check.result import load_check
    from perfcast.report.documents.evidence.gpu_check import document_of

    if source is not None:
        if parts or restart:
            raise InputError("--from shows a file; it takes no --part and no --restart")
        found = load_check(source)
        write_answer(outputs, lambda: document_of(found), found.to_json, is_exact=True)
        return
    from perfcast.evidence.gpu_check.run import CheckRequest, check_device

    request = CheckRequest(
        output=Path(output), device=device, budget_seconds=budget, parts=parts, restart=restart
    )
    with status("checking the device") as on_progress:
        found = check_device(request, on_progress)
    write_answer(outputs, lambda: document_of(found), found.to_json, written=[output], is_exact=True)
    if not found.is_whole:
        names = [part.name for part in found.parts if part.status in ("failed", "no_time")]
        raise IncompleteError(
            f"{len(names)} of {len(found.parts)} parts are not done: {', '.join(names)}; the file says why, "
            "and the same command goes on with them"
        )
