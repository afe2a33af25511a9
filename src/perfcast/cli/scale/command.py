"""``perfcast scale``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.scale.options import ScaleOptions, scale_options

if TYPE_CHECKING:
    from perfcast.prediction.request.batches import BatchesRequest
    from perfcast.prediction.request.scale import ScaleRequest


@click.command()
@scale_options
@output_options(html=True, fit=True)
def scale(own: ScaleOptions, outputs: Outputs) -> None:
    """Forecast what becomes of a training step of MODEL on more and more devices, or of inference with
    more sequences and longer contexts.

    MODEL is a catalog name, or a Hugging Face config.json or its folder. Batches of --mode serve stand: all
    their prompts are there at once. Requests that come, queue and end are forecast by 'perfcast serving'.
    """
    from perfcast.cli.scale.request import build_request, build_serving_request

    if own.limits:
        from perfcast.cli.scale.limits import show_limits

        if own.model or own.clusters:
            raise click.UsageError("--limits has no model and no cluster")
        show_limits(own.assumed, own.data, outputs)
        return
    idle = [option for option, value in {"--assume": own.assumed, "--data": own.data}.items() if value]
    if idle:
        raise click.UsageError(f"{', '.join(idle)}: of --limits")
    if own.model is None or not own.clusters:
        raise click.UsageError("give MODEL and --cluster with --devices, or --limits")
    if own.mode == "train":
        _answer_scaling(build_request(own.model, own), outputs)
    else:
        _answer_serving(build_serving_request(own.model, own), outputs)


def _answer_scaling(request: ScaleRequest, outputs: Outputs) -> None:
    """With progress on standard error."""
    from rich.console import Console

    from perfcast.prediction.sweep.scale import predict_scaling
    from perfcast.report.data.scale import data_of
    from perfcast.report.documents.scale import document_of

    with Console(stderr=True, highlight=False).status("…") as status:
        found = predict_scaling(request, lambda name, count: status.update(f"{name}: {count:,} devices …"))
    points = [point for curve in found.curves for point in curve.points]
    _check_any({f"{point.num_devices} devices": point.skipped for point in points})
    write_answer(outputs, lambda: document_of(found), lambda: data_of(found), fits=found.fits)


def _answer_serving(request: BatchesRequest, outputs: Outputs) -> None:
    """With progress on standard error."""
    from rich.console import Console

    from perfcast.prediction.sweep.batches import sweep_batches
    from perfcast.report.data.batches import data_of
    from perfcast.report.documents.batches import document_of

    with Console(stderr=True, highlight=False).status("…") as status:
        found = sweep_batches(
            request,
            lambda batch, context: status.update(f"{batch:,} sequences of {context:,} tokens …"),
        )
    _check_any({f"{p.batch_size} sequences of {p.context_length} tokens": p.skipped for p in found.points})
    write_answer(outputs, lambda: document_of(found), lambda: data_of(found), fits=found.fits)


def _check_any(skipped: dict[str, str]) -> None:
    """Raises PlanError where no point has a forecast: ``skipped`` says of each why, '' of one that has."""
    from perfcast.errors import PlanError

    if all(skipped.values()):
        point, reason = next(iter(skipped.items()))
        more = f", and the other {len(skipped) - 1} neither" if len(skipped) > 1 else ""
        raise PlanError(f"{point} cannot be forecast{more}: {reason}")
