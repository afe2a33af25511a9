"""Options that the subcommands of ``perfcast trace`` share."""

from __future__ import annotations

import re

import click

from perfcast.cli.options.steps import STEP_RANGE
from perfcast.units import GIB, KIB, MIB, TIB

_UNITS = {"": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB}


def bytes_of(_: click.Context, __: click.Parameter, value: str) -> int:
    """A number of bytes, with a unit: 500MiB, 8GiB, 8G."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]*)", value.strip())
    unit = match[2].lower() if match else ""
    unit = unit + "ib" if unit in ("k", "m", "g", "t") else unit
    if match is None or unit not in _UNITS or float(match[1]) <= 0:
        raise click.BadParameter(f"'{value}' is no size; such as 500MiB or 8GiB")
    return int(float(match[1]) * _UNITS[unit])


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
    "--steps", type=STEP_RANGE, help="Numbers of marked steps, such as 3:5; default: all."
)


def step_numbers(steps: tuple[int, int] | None) -> range | None:
    """All numbers of a range of steps."""
    return None if steps is None else range(steps[0], steps[1] + 1)
