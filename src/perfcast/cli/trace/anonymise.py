"""``perfcast trace anonymise``."""

from __future__ import annotations

import click

from perfcast.cli.options.places import OUTPUT_FILE
from perfcast.cli.options.steps import STEP_RANGE
from perfcast.cli.trace.options import limit_option
from perfcast.printer.streams import say


@click.command()
@click.argument("trace", metavar="TRACE")
@click.option(
    "--output",
    "--out",
    "out",
    type=OUTPUT_FILE,
    required=True,
    metavar="FILE",
    help="What is written; '.gz' is compressed.",
)
@click.option(
    "--salt",
    default=None,
    metavar="TEXT",
    help="Secret mixed into every hash; give both files of a run the same. Default: a random one.",
)
@click.option("--steps", type=STEP_RANGE, help="Places of the marked steps that stay, from 0; default: all.")
@limit_option
def anonymise(trace: str, out: str, salt: str | None, steps: tuple[int, int] | None, max_bytes: int) -> None:
    """Make an execution trace or a timeline fit to be shared: labels, custom operators, paths and hosts are
    hashed, what replays and explanations do not need is left out.
    """
    import secrets

    from perfcast.files.writing import check_writable
    from perfcast.traces.anonymise.trace import anonymise_trace

    check_writable(out)
    found = anonymise_trace(
        trace,
        out,
        salt=secrets.token_hex(16) if salt is None else salt,
        steps=steps,
        max_bytes=max_bytes,
    )
    say(f"{found.path}: {found.num_kept} of {found.num_read} entries, {found.num_hashed} names hashed")
