"""``perfcast predict`` of a parallel program of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options.cost_model import choose_cost_model
from perfcast.cli.options.shared import DEFAULT_DTYPE

if TYPE_CHECKING:
    from perfcast.core.cluster import Cluster
    from perfcast.core.forecast.plan import PlanForecast


def forecast_program(
    model: str,
    device: str | None,
    cluster: str | None,
    world_size: int,
    *,
    cost_model: str | None,
    framework: str | None,
    weights: str | None,
    with_spans: bool,
    **options: Any,
) -> PlanForecast:
    """The forecast of a parallel ``FILE.py:FUNCTION``; its batch and sequence are those of one rank.

    Raises:
        InputError: Contradictions, unknown names, a program that cannot be captured.
        UsageError: A plan, or no place to run.
    """
    from dataclasses import replace

    from perfcast.prediction.parallel_program.predict import predict_parallel_program

    if options.pop("plan"):
        raise click.UsageError("--world-size is of a program that is parallel itself; it takes no --plan")
    devices = options.pop("devices")
    if devices not in (1, world_size):
        raise click.UsageError(f"--world-size {world_size}, but --devices {devices}")
    place, notes = _choose_place(device, cluster, world_size)
    options["batch_size"] = 1 if options["batch_size"] is None else options["batch_size"]
    options["dtype"] = options["dtype"] or DEFAULT_DTYPE
    forecast = predict_parallel_program(
        model,
        place,
        world_size,
        cost_model=choose_cost_model(cost_model, place.device, framework, weights),
        with_spans=with_spans,
        **options,
    )
    return replace(forecast, assumptions=(*forecast.assumptions, *notes))


def _choose_place(
    device: str | None, cluster: str | None, world_size: int
) -> tuple[Cluster, tuple[str, ...]]:
    from perfcast.prediction.plan.cluster import cluster_by_name, cluster_of_device

    if cluster is not None:
        return cluster_by_name(cluster, None if ":" in cluster else world_size, device), ()
    if device is None:
        raise click.UsageError("where does it run? give --cluster NAME:N, or --device NAME")
    found = cluster_of_device(device, world_size)
    return found, (f"no --cluster was given: {found.name}, {found.title}",)
