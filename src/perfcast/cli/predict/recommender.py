"""``perfcast predict`` of a recommendation model whose tables are spread over several devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options.cost_model import choose_cost_model
from perfcast.cli.options.shared import DEFAULT_DTYPE
from perfcast.cli.output import Outputs, write_answer
from perfcast.core.plan_text import PlanValues, format_values
from perfcast.errors import PlanError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.cluster import Cluster
    from perfcast.core.forecast.recommender import RecommenderForecast

#: Options that mean nothing here, by the name of their parameter; those of steps of other models.
_REFUSED = (
    "micro_batch_size", "sequence_length", "optimizer_implementation", "framework", "weights", "closed_form",
    "stragglers",
)  # fmt: skip


def is_recommender(model: str) -> bool:
    """Whether a name is of a recommendation model of the catalog; files and unknown names are not."""
    from perfcast.catalog.models import load_model

    try:
        return load_model(model).architecture == "DLRM"
    except UnknownNameError:
        return False


def forecast_recommender(
    model: str, cluster: str | None, device: str | None, values: PlanValues, **options: Any
) -> RecommenderForecast:
    """The forecast that the command line asks for.

    Args:
        cluster: None: the catalog's cluster of the device.
        values: Of ``--plan``; none of them says anything about tables.

    Raises:
        InputError: Unknown names, a batch or plan that the cluster cannot follow.
        UsageError: Options of other models, or no batch.
    """
    from perfcast.prediction.recommender.predict import RecommenderOptions, predict_recommender

    _refuse(model, values, options)
    if options["batch_size"] is None:
        raise click.UsageError("--batch-size: samples of a step, over all devices")
    target, notes = _choose_cluster(model, cluster, device, options["devices"])
    chosen = RecommenderOptions(dtype=options["dtype"] or DEFAULT_DTYPE, compiled=options["compile"])
    if _is_given("optimizer"):
        chosen = RecommenderOptions(chosen.dtype, options["optimizer"], compiled=chosen.compiled)
    pricing = choose_cost_model(options["cost_model"], target.device, None, None)
    found = predict_recommender(model, target, options["batch_size"], options=chosen, cost_model=pricing)
    return replace(found, assumptions=(*found.assumptions, *notes))


def _choose_cluster(
    model: str, cluster: str | None, device: str | None, devices: int
) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster, and what was chosen for the user."""
    from perfcast.prediction.plan.cluster import cluster_by_name, cluster_of_device

    if devices < 1:
        raise PlanError(f"--devices {devices}: must be at least 1")
    if cluster is not None:
        return cluster_by_name(cluster, devices if devices > 1 else None, device), ()
    if device is None:
        raise click.UsageError(
            f"where does {model} run? give --cluster NAME:N, or --device NAME with --devices N"
        )
    found = cluster_of_device(device, devices)
    return found, (f"no --cluster was given: {found.name}, {found.title}",)


def _refuse(model: str, values: PlanValues, options: dict[str, Any]) -> None:
    if values:
        raise PlanError(
            f"--plan {format_values(values)}: means nothing for {model}, whose networks run on every device "
            "and whose tables are sharded ('perfcast shard' searches placements); leave it out"
        )
    if options["mode"] != "train":
        raise PlanError(f"--mode {options['mode']}: {model} on several devices is a training step")
    given = [f"--{name.replace('_', '-')}" for name in _REFUSED if options[name]]
    given += ["--attention"] * _is_given("attention")
    if given:
        raise click.UsageError(f"{', '.join(given)}: not of a recommendation model on several devices")


def _is_given(parameter: str) -> bool:
    """Whether an option of the running command was written down, not left at its default."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is not click.core.ParameterSource.DEFAULT


def write_recommender_forecast(forecast: RecommenderForecast, outputs: Outputs) -> None:
    """What was asked for of the forecast."""
    from perfcast.report.data.recommender import data_of
    from perfcast.report.documents.recommender import document_of
    from perfcast.report.timelines.recommender import about, events_of
    from perfcast.report.trace_events import trace_events

    write_answer(
        outputs,
        lambda: document_of(forecast),
        lambda: data_of(forecast),
        lambda: trace_events(events_of(forecast), about(forecast)),
    )
