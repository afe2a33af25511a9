"""``perfcast search`` over models × clusters × batches × sequence lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.output import Outputs, write_answer
from perfcast.cli.search.options import (
    check_fractions,
    check_objective,
    count_simulated,
    parse_amount,
    parse_counts,
    parse_fixed,
    parse_time,
    split_names,
)

if TYPE_CHECKING:
    from perfcast.search.sweep.cells import Cell, SweepJob
    from perfcast.search.sweep.workers import OpenPool


def run_search_sweep(models: Sequence[str], options: dict[str, Any], outputs: Outputs) -> None:
    """Search every cell, on this machine or on Ray, and show each one's best plans.

    Raises:
        InputError: A value that an option cannot have, an unknown name, a backend that is not there.
        UsageError: Options that contradict.
    """
    from rich.console import Console

    from perfcast.cost.profile import data_folder
    from perfcast.report.data.search.sweep import data_of
    from perfcast.report.documents.search.sweep import document_of
    from perfcast.search.sweep.run import run_sweep, show_progress

    cells, job = _cells(models, options), _job(options)
    objective = str(job.settings["objective"])
    open_pool = _open_pool(options)
    folder = Path(options["store"]) if options["store"] else data_folder() / "sweeps"
    with show_progress(Console(stderr=True, highlight=False)) as watch:
        found = run_sweep(cells, job, folder, open_pool=open_pool, watch=watch)
    write_answer(outputs, lambda: document_of(found, objective), lambda: data_of(found, objective))


def _cells(models: Sequence[str], options: dict[str, Any]) -> tuple[Cell, ...]:
    from perfcast.search.sweep.cells import expand_grid

    clusters = split_names("--cluster", options["clusters"])
    batches = parse_counts("--global-batch-size", options["global_batch_size"])
    lengths = parse_counts("--sequence-length", options["sequence_length"])
    if not batches:
        raise click.UsageError("--global-batch-size N: how many sequences has a step?")
    if lengths:
        return expand_grid(models, clusters, batches, lengths)
    return tuple(
        cell for model in models for cell in expand_grid([model], clusters, batches, [_own_length(model)])
    )


def _own_length(model: str) -> int:
    """The sequence length that a model states.

    Raises:
        ModelError: It states none.
    """
    from perfcast.prediction.model import read_model

    return read_model(model).sequence_length(None)


def _job(options: dict[str, Any]) -> SweepJob:
    from perfcast.core.training import Training
    from perfcast.search.ranking.objectives import OBJECTIVES
    from perfcast.search.sweep.plans import PlanSearch, plan_sweep

    objective = options["objective"] or next(iter(OBJECTIVES))
    check_objective(objective, options)
    check_fractions(options)
    if objective == "devices":
        raise click.UsageError("a sweep's cells have their devices: --cluster a:64,a:128 with time-to-train")
    Training(dtype=options["dtype"], optimizer=options["optimizer"], framework=options["framework"])
    search = PlanSearch(
        dtype=options["dtype"], optimizer=options["optimizer"], framework=options["framework"],
        cost_model=options["cost_model"] or "learned", fixed=parse_fixed(options["fixed"]),
        num_best=options["top"], num_simulated=count_simulated(options, 0), objective=objective,
        tokens=parse_amount("--tokens", options["tokens"]),
        deadline_seconds=parse_time("--deadline", options["deadline"]),
        prices=_prices(options), max_memory_fraction=options["max_memory_fraction"],
        min_mfu=options["min_mfu"],
    )  # fmt: skip
    return plan_sweep(search)


def _prices(options: dict[str, Any]) -> Mapping[str, float] | None:
    """Those of the file, once every cluster has one.

    Raises:
        InputError: The file cannot be read, or has no price of a cluster.
    """
    if not options["prices"]:
        return None
    from perfcast.catalog.clusters import load_cluster
    from perfcast.search.prices_file import read_prices

    prices = read_prices(options["prices"])
    for name in split_names("--cluster", options["clusters"]):
        prices.of_cluster(load_cluster(name), name)
    return dict(prices.dollars_per_device_hour)


def _open_pool(options: dict[str, Any]) -> OpenPool:
    if options["backend"] == "ray":
        from perfcast.search.sweep.ray_pool import ray_backend

        if options["address"] and options["processes"] is not None:
            raise click.UsageError("--processes is of a Ray that is started here, not of one at --address")
        return ray_backend(options["address"], options["processes"])
    if options["address"]:
        raise click.UsageError("--address is of --backend ray")
    if options["processes"] is not None:
        raise click.UsageError("--processes of a sweep goes with --backend ray")
    from perfcast.search.sweep.workers import open_local_pool

    return open_local_pool
