"""``perfcast predict`` of a recommendation model whose tables are spread over a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.cost_model import choose_cost_model
from perfcast.cli.options import DEFAULT_DTYPE
from perfcast.errors import PlanError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.recommender_forecast import RecommenderForecast

#: Options that mean nothing here, by the name of their parameter; those of steps of other models.
_REFUSED = (
    "micro_batch_size", "sequence_length", "optimizer_implementation", "framework", "weights", "closed_form",
    "stragglers", "html", "timeline",
)  # fmt: skip


def is_recommender(model: str) -> bool:
    """Whether a name is of a recommendation model of the catalog; files and unknown names are not."""
    from perfcast.catalog.models import load_model

    try:
        return load_model(model).architecture == "DLRM"
    except UnknownNameError:
        return False


def forecast_recommender(
    model: str, cluster: str, device: str | None, keys: dict[str, str], **options: Any
) -> RecommenderForecast:
    """The forecast that the command line asks for.

    Args:
        keys: Of ``--plan``; none of them says anything about tables.

    Raises:
        InputError: Unknown names, a batch or plan that the cluster cannot follow.
        UsageError: Options of other models, or no batch.
    """
    from perfcast.prediction.plan_cluster import cluster_by_name
    from perfcast.prediction.recommender import RecommenderOptions, predict_recommender

    _refuse(model, keys, options)
    if options["batch_size"] is None:
        raise click.UsageError("--batch-size: samples of a step, over all devices")
    devices = options["devices"]
    target = cluster_by_name(cluster, devices if devices > 1 else None, device)
    chosen = RecommenderOptions(dtype=options["dtype"] or DEFAULT_DTYPE, compiled=options["compile"])
    if _is_given("optimizer"):
        chosen = RecommenderOptions(chosen.dtype, options["optimizer"], compiled=chosen.compiled)
    pricing = choose_cost_model(options["cost_model"], target.device, None, None)
    return predict_recommender(model, target, options["batch_size"], options=chosen, cost_model=pricing)


def _refuse(model: str, keys: dict[str, str], options: dict[str, Any]) -> None:
    if keys:
        raise PlanError(
            f"--plan {','.join(keys)}: means nothing for {model}, whose networks run on every device and "
            "whose tables are sharded ('perfcast shard' searches placements); leave it out"
        )
    if options["mode"] != "train":
        raise PlanError(f"--mode {options['mode']}: {model} on a cluster is a training step")
    given = [f"--{name.replace('_', '-')}" for name in _REFUSED if options[name]]
    given += ["--attention"] * _is_given("attention")
    if given:
        raise click.UsageError(f"{', '.join(given)}: not of a recommendation model on a cluster")


def _is_given(parameter: str) -> bool:
    """Whether an option of the running command was written down, not left at its default."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is not click.core.ParameterSource.DEFAULT


def write_recommender_forecast(forecast: RecommenderForecast, json_path: str | None) -> None:
    """JSON where it is asked for; the text unless JSON takes standard output."""
    if json_path:
        from perfcast.report.json_format import write_json
        from perfcast.report.recommender import recommender_to_dict

        write_json(recommender_to_dict(forecast), json_path)
    if json_path != "-":
        from rich.console import Console

        from perfcast.report.recommender import print_recommender_forecast

        console = Console(highlight=False)
        print_recommender_forecast(forecast, console)
        if json_path:
            console.print(f"wrote {json_path}", markup=False)
