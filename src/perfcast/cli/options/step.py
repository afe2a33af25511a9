"""MODEL and everything that says what is done with it, for the verbs of one step."""

from __future__ import annotations

from collections.abc import Callable

import click

from perfcast.cli.options.pack import Command
from perfcast.core.tensor import MEMORY_FORMATS


def step_options(*, requires_device: bool) -> tuple[Callable[[Command], Command], ...]:
    """Those of ``StepQuestion``, but for what of the model trains."""
    return (
        click.argument("model"),
        click.option("--device", required=requires_device),
        click.option("--devices", type=int, default=1, show_default=True),
        click.option("--plan", default=""),
        click.option("--mode", default="train", show_default=True),
        click.option("--batch-size", type=int),
        click.option("--micro-batch-size", type=int),
        click.option("--sequence-length", type=int),
        click.option("--dtype"),
        click.option("--kv-cache-dtype", metavar="FORMAT"),
        click.option("--optimizer", default="adamw", show_default=True),
        click.option("--optimizer-implementation"),
        click.option("--attention", default="sdpa", show_default=True),
        click.option("--compile", is_flag=True),
        click.option("--image-size", type=int),
        click.option(
            "--memory-format",
            type=click.Choice(MEMORY_FORMATS),
            default=MEMORY_FORMATS[0],
            show_default=True,
        ),
        click.option("--autocast", is_flag=True),
    )
