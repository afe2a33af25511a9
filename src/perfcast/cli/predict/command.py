"""``perfcast predict``."""

from __future__ import annotations

import click

from perfcast.cli.options.run import RunOptions, build_run_request, run_options
from perfcast.cli.options.shared import StepOptions, step_options
from perfcast.cli.output import Outputs, output_options
from perfcast.cli.predict.options import PredictOptions, predict_options


@click.command()
@step_options(requires_device=False)
@predict_options
@run_options
@output_options(html=True, timeline=True, fit=True)
def predict(
    step: StepOptions,
    own: PredictOptions,
    run: RunOptions,
    outputs: Outputs,
) -> None:
    """Forecast time and memory of one step of MODEL, on one device or under a plan over many.

    MODEL is a catalog name, a Hugging Face config.json or its folder, timm:NAME (an image model of the
    package timm), or FILE.py:FUNCTION, where the function returns a module and its example inputs. A plan
    (--cluster, or --devices with --plan) says how it is spread. A function that is itself parallel (FSDP2,
    tensor parallelism, pipeline stages) takes --world-size, and runs as it is written. With --tokens, a
    training under a plan is followed to its end. A recommendation model (DLRM) on several devices is trained
    with its embedding tables sharded over them.
    """
    if own.closed_form and outputs.timeline:
        raise click.UsageError("--timeline: formulas have none; leave --closed-form out")
    _answer(step, own, run, outputs)


def _answer(step: StepOptions, own: PredictOptions, run: RunOptions, outputs: Outputs) -> None:
    from perfcast.cli.predict import answers
    from perfcast.cli.predict.request import build_request
    from perfcast.prediction.request.one_device import OneDeviceRequest
    from perfcast.prediction.request.parallel_program import ParallelProgramRequest
    from perfcast.prediction.request.plan import PlanRequest

    request = build_request(step, own, run, with_timeline=bool(outputs.html or outputs.timeline))
    if isinstance(request, OneDeviceRequest):
        answers.answer_one_device(request, outputs, own.chakra)
    elif isinstance(request, ParallelProgramRequest):
        build_run_request(request.cluster.device, run)
        answers.answer_parallel_program(request, outputs)
    elif isinstance(request, PlanRequest):
        assert not isinstance(request.cluster, str)
        answers.answer_plan(request, build_run_request(request.cluster.device, run), outputs, own.chakra)
    else:
        answers.answer_recommender(request, outputs)
