"""``perfcast memory``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.options.step import step_options
from perfcast.cli.options.tuning import TUNING_OPTIONS
from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.verbs.memory.question import MemoryQuestion


@click.command()
@asking(
    MemoryQuestion,
    *step_options(requires_device=True),
    *TUNING_OPTIONS,
    click.option("--largest-batch", is_flag=True),
    click.option("--largest-sequence", is_flag=True),
    click.option("--allocator", default=""),
    click.option("--world-size", type=int),
    click.option("--rank", type=int, default=0, show_default=True),
    click.option("--fit", is_flag=True),
    click.option("--cluster", metavar="NAME"),
    click.option("--framework"),
    click.option("--closed-form", is_flag=True),
)
@output_options(html=True, fit=True)
def memory(asked: MemoryQuestion, outputs: Outputs) -> None:
    """Forecast the memory of one step of MODEL: the peak, what it consists of, and whether it fits.

    The model's own modules on one device are captured, tensor by tensor. A plan over several (--devices,
    --plan), a framework's kernels (--framework; of inference the default) and --fit use a closed form of
    transformers.

    With --largest-batch or --largest-sequence, MODEL is captured at several sizes until the largest that fits
    is known; the forecast is then of that size.
    """
    from perfcast.verbs.memory.answer import answer

    with status(f"capturing {asked.model}") as on_progress:
        result = answer(asked, on_progress=on_progress)
    write_result(outputs, result)
