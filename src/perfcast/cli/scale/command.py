"""``perfcast scale``."""

from __future__ import annotations

import click

from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.cli.scale.options import scale_options
from perfcast.verbs.scale.question import ScaleQuestion


@click.command()
@scale_options
@output_options(html=True, fit=True)
def scale(asked: ScaleQuestion, outputs: Outputs) -> None:
    """Forecast what becomes of a training step of MODEL on more and more devices, or of inference with
    more sequences and longer contexts.

    MODEL is a catalog name, or a Hugging Face config.json or its folder. Batches of --mode serve stand: all
    their prompts are there at once. Requests that come, queue and end are forecast by 'perfcast serving'.
    """
    from perfcast.verbs.scale.answer import answer

    with status("scaling") as on_progress:
        found = answer(asked, on_progress=on_progress)
    write_result(outputs, found)
