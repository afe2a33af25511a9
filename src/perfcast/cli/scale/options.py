"""Options of ``perfcast scale``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.options.tuning import TUNING_OPTIONS
from perfcast.cli.options.values import counts
from perfcast.verbs.scale.question import ScaleQuestion

scale_options = asking(
    ScaleQuestion,
    click.argument("model", required=False),
    click.option("--cluster", multiple=True, metavar="NAME"),
    click.option("--devices", callback=counts, metavar="N,N,…"),
    click.option("--plan", default=""),
    click.option("--weak/--strong", default=False),
    click.option("--batch-size", type=int),
    click.option("--micro-batch-size", type=int),
    click.option("--sequence-length", type=int),
    click.option("--mode", default="train", show_default=True),
    click.option("--batch-sizes", callback=counts, metavar="N,N,…"),
    click.option("--contexts", callback=counts, metavar="N,N,…"),
    click.option("--dtype"),
    click.option("--kv-cache-dtype", metavar="FORMAT"),
    click.option("--framework"),
    click.option("--compile", is_flag=True),
    *TUNING_OPTIONS,
    click.option("--cost-model"),
    click.option("--simulate", is_flag=True),
    click.option("--limits", is_flag=True),
    click.option("--assume", multiple=True, metavar="NAME=VALUE"),
    click.option("--data", metavar="DIR"),
)
