"""Options that say what of a model trains, for every verb that trains."""

from __future__ import annotations

import click

#: In the order of ``TuningQuestion``.
TUNING_OPTIONS = (
    click.option("--lora", metavar="ITEMS"),
    click.option("--qlora", metavar="ITEMS"),
    click.option("--freeze", metavar="PARTS"),
)
