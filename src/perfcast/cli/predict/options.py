"""Options of ``perfcast predict``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.options.places import OUTPUT_FOLDER
from perfcast.cli.options.run import RUN_OPTIONS
from perfcast.cli.options.step import step_options
from perfcast.cli.options.tuning import TUNING_OPTIONS
from perfcast.verbs.predict.question import PredictQuestion

predict_options = asking(
    PredictQuestion,
    *step_options(requires_device=False),
    *TUNING_OPTIONS,
    click.option("--cluster", metavar="NAME:N"),
    click.option("--cost-model"),
    click.option("--framework"),
    click.option("--weights", metavar="DIR"),
    click.option("--world-size", type=int),
    click.option("--closed-form", is_flag=True),
    click.option("--stragglers", metavar="SPEC"),
    click.option("--host", metavar="NAME"),
    click.option("--cuda-graphs", is_flag=True),
    click.option(
        "--chakra",
        type=OUTPUT_FOLDER,
        metavar="DIR",
        help="Chakra traces of the step; under a plan, for ASTRA-sim.",
    ),
    *RUN_OPTIONS,
)
