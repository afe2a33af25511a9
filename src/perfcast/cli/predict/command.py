"""``perfcast predict``."""

from __future__ import annotations

import click

from perfcast.cli.output import Outputs, output_options
from perfcast.cli.predict.options import predict_options
from perfcast.verbs.predict.question import PredictQuestion


@click.command()
@predict_options
@output_options(html=True, timeline=True, fit=True)
def predict(asked: PredictQuestion, chakra: str | None, outputs: Outputs) -> None:
    """Forecast time and memory of one step of MODEL, on one device or under a plan over many.

    MODEL is a catalog name, a Hugging Face config.json or its folder, timm:NAME (an image model of the
    package timm), or FILE.py:FUNCTION, where the function returns a module and its example inputs. A plan
    (--cluster, or --devices with --plan) says how it is spread. A function that is itself parallel (FSDP2,
    tensor parallelism, pipeline stages) takes --world-size, and runs as it is written. With --tokens, a
    training under a plan is followed to its end. A recommendation model (DLRM) on several devices is trained
    with its embedding tables sharded over them.
    """
    from perfcast.cli.predict.answers import answer

    if asked.closed_form and outputs.timeline:
        raise click.UsageError("--timeline: formulas have none; leave --closed-form out")
    answer(asked, outputs, chakra)
