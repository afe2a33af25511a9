"""``perfcast trace anonymise``."""

from __future__ import annotations

import click

from perfcast.cli.trace.options import limit_option


@click.command()
@click.argument("trace", metavar="TRACE")
@click.option("--out", "out", required=True, metavar="FILE", help="What is written; '.gz' is compressed.")
@click.option(
    "--salt",
    default=None,
    metavar="TEXT",
    help="Secret mixed into every hash; give both files of a run the same. Default: a random one.",
)
@click.option("--steps", metavar="FIRST:LAST", help="Keep these of the marked steps, counted from 0.")
@limit_option
def anonymise(trace: str, out: str, salt: str | None, steps: str | None, max_bytes: int) -> None:
    """Make an execution trace or a timeline fit to be shared: labels, custom operators, paths and hosts are
    hashed, what replays and explanations do not need is left out.
    """
    import secrets

    from perfcast.files import check_writable
    from perfcast.traces.anonymise.trace import anonymise_trace

    check_writable(out)
    found = anonymise_trace(
        trace,
        out,
        salt=secrets.token_hex(16) if salt is None else salt,
        steps=_range_of(steps),
        max_bytes=max_bytes,
    )
    click.echo(f"{found.path}: {found.num_kept} of {found.num_read} entries, {found.num_hashed} names hashed")


def _range_of(text: str | None) -> tuple[int, int] | None:
    """'2:5' or '3'."""
    if text is None:
        return None
    first, _, last = text.partition(":")
    if not first.isdecimal() or not (last or first).isdecimal() or len(text) > 20:
        raise click.BadParameter(f"'{text}' is no range of steps; such as 2:5 or 3", param_hint="--steps")
    return int(first), int(last or first)
