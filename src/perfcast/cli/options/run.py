"""Options of a whole run: tokens, interruptions, checkpoints, power, price."""

from __future__ import annotations

import click

from perfcast.cli.options import values

#: In the order of ``RunQuestion``.
RUN_OPTIONS = (
    click.option("--tokens", callback=values.amount, metavar="N"),
    click.option("--mtbf", metavar="HOURS"),
    click.option("--restart", type=float, metavar="MINUTES"),
    click.option("--checkpoint-interval", metavar="MINUTES"),
    click.option("--checkpoint-bandwidth", type=float, metavar="GB/S"),
    click.option("--async-checkpoint", is_flag=True),
    click.option("--pue", type=float),
    click.option("--price", metavar="DOLLARS"),
)
