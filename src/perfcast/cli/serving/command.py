"""``perfcast serving``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.serving.launch import launch_files, write_launch_files
from perfcast.cli.serving.options import ServingOptions, serving_options

if TYPE_CHECKING:
    from perfcast.prediction.request.serving import ServingRequest


@click.command()
@serving_options
@output_options(html=True, timeline=True, fit=True)
def serving(own: ServingOptions, outputs: Outputs) -> None:
    """Forecast what clients of MODEL wait under load, and what serving it answers, holds and costs.

    MODEL is a catalog name, or a Hugging Face config.json or its folder. Requests have lengths and come from
    so many clients (--concurrency), at a rate (--request-rate), from a file (--requests), or all at once
    (--saturated). Replicas of a --plan answer them; --prefill-plan and --decode-plan split the two.
    """
    from perfcast.cli.serving.request import build_request, build_sweep

    _check_files(own, outputs)
    if own.sweep:
        _answer_sweep(build_sweep(own), outputs)
    else:
        _answer(build_request(own), outputs, own)


#: Seconds whose steps a timeline shows where nothing is said.
_WINDOW = (0.0, 10.0)


def _check_files(own: ServingOptions, outputs: Outputs) -> None:
    """Raises UsageError where options for files do not go together."""
    if own.launch_model is not None and own.launch is None:
        raise click.UsageError("--launch-model: of --launch DIR")
    if own.window is not None and outputs.timeline is None:
        raise click.UsageError("--window: of --timeline FILE")
    for name, given in (("--launch", own.launch), ("--timeline", outputs.timeline)):
        if own.sweep and given is not None:
            raise click.UsageError(f"{name}: of one deployment under one load; leave --sweep out")


def _answer(request: ServingRequest, outputs: Outputs, own: ServingOptions) -> None:
    from perfcast.prediction.serving.predict import predict_serving
    from perfcast.report.data.serving.forecast import data_of
    from perfcast.report.documents.serving.forecast import document_of
    from perfcast.report.timelines.serving import about, events_of
    from perfcast.report.trace_events import trace_events

    files = {} if own.launch is None else launch_files(request, own.launch, own.launch_model)
    if outputs.timeline is not None:
        request = replace(request, window=own.window or _WINDOW)
    found = predict_serving(request)
    write_answer(
        outputs,
        lambda: document_of(found),
        lambda: data_of(found),
        lambda: trace_events(events_of(found), about(found)),
        written=write_launch_files(files),
        fits=found.fits,
    )


def _answer_sweep(points: Sequence[tuple[Mapping[str, str], ServingRequest]], outputs: Outputs) -> None:
    """With progress on standard error."""
    from rich.console import Console

    from perfcast.prediction.serving.sweep import sweep_serving
    from perfcast.report.data.serving.sweep import sweep_data_of
    from perfcast.report.documents.serving.sweep import document_of

    with Console(stderr=True, highlight=False).status("…") as status:
        found = sweep_serving(points, lambda values: status.update(f"{' '.join(values.values())} …"))
    write_answer(outputs, lambda: document_of(found), lambda: sweep_data_of(found), fits=found.fits)
