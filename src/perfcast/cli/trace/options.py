"""Options that the subcommands of ``perfcast trace`` share."""

from __future__ import annotations

import click

from perfcast.cli.options.steps import STEP_RANGE
from perfcast.files.limits import parse_size


def bytes_of(_: click.Context, option: click.Parameter, value: str) -> int:
    """A number of bytes, with a unit: 500MiB, 8GiB, 8G."""
    return parse_size(option.opts[0], value)


limit_option = click.option(
    "--max-bytes",
    callback=bytes_of,
    default="2GiB",
    show_default=True,
    metavar="SIZE",
    help="Unpacked bytes of one file beyond which reading is given up.",
)


#: The same where the verb's question says what it is.
asked_limit_option = click.option("--max-bytes", default="2GiB", show_default=True, metavar="SIZE")
steps_option = click.option(
    "--steps", type=STEP_RANGE, help="Numbers of marked steps, such as 3:5 (both included); default: all."
)


def step_numbers(steps: tuple[int, int] | None) -> range | None:
    """All numbers of a range of steps."""
    return None if steps is None else range(steps[0], steps[1] + 1)
