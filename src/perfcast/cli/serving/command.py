"""``perfcast serving``."""

from __future__ import annotations

import click

from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.cli.serving.launch import launch_files, write_launch_files
from perfcast.cli.serving.options import serving_options
from perfcast.verbs.serving.question import ServingQuestion


@click.command()
@serving_options
@output_options(html=True, timeline=True, fit=True)
def serving(asked: ServingQuestion, launch: str | None, launch_model: str | None, outputs: Outputs) -> None:
    """Forecast what clients of MODEL wait under load, and what serving it answers, holds and costs.

    MODEL is a catalog name, or a Hugging Face config.json or its folder. Requests have lengths and come from
    so many clients (--concurrency), at a rate (--request-rate), from a file (--requests), or all at once
    (--saturated). Replicas of a --plan answer them; --prefill-plan and --decode-plan split the two.
    """
    from perfcast.verbs.serving.answer import answer
    from perfcast.verbs.serving.request import request_of

    _check_files(asked, launch, launch_model, outputs)
    files = {} if launch is None else launch_files(request_of(asked), launch, launch_model)
    with status("serving") as on_progress:
        found = answer(asked, on_progress=on_progress, with_timeline=outputs.timeline is not None)
    write_result(outputs, found, written=write_launch_files(files))


def _check_files(asked: ServingQuestion, launch: str | None, model: str | None, outputs: Outputs) -> None:
    """Raises UsageError where options for files do not go together."""
    if model is not None and launch is None:
        raise click.UsageError("--launch-model: of --launch DIR")
    if asked.window is not None and outputs.timeline is None:
        raise click.UsageError("--window: of --timeline FILE")
    for name, given in (("--launch", launch), ("--timeline", outputs.timeline)):
        if asked.sweep and given is not None:
            raise click.UsageError(f"{name}: of one deployment under one load; leave --sweep out")
