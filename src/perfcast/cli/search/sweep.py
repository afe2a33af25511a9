"""``perfcast search`` over models × clusters × batches × sequence lengths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, write_answer
from perfcast.cli.search.options import SearchOptions
from perfcast.cli.search.request import build_sweep

if TYPE_CHECKING:
    from perfcast.searches.sweep.cells import Cell
    from perfcast.searches.sweep.workers import OpenPool


def run_search_sweep(own: SearchOptions, outputs: Outputs) -> None:
    """Search every cell, on this machine or on Ray, and show each one's best plans.

    Raises:
        InputError: A value that an option cannot have, an unknown name, a backend that is not there.
        UsageError: Options that contradict.
    """
    from rich.console import Console

    from perfcast.cost.profile import data_folder
    from perfcast.report.data.search.sweep import data_of
    from perfcast.report.documents.search.sweep import document_of
    from perfcast.searches.sweep.plans import plan_sweep
    from perfcast.searches.sweep.run import run_sweep, show_progress

    cells, search = _cells(own), build_sweep(own)
    open_pool = _open_pool(own)
    folder = Path(own.store) if own.store else data_folder() / "sweeps"
    with show_progress(Console(stderr=True, highlight=False)) as watch:
        found = run_sweep(cells, plan_sweep(search), folder, open_pool=open_pool, watch=watch)
    write_answer(
        outputs, lambda: document_of(found, search.objective), lambda: data_of(found, search.objective)
    )


def _cells(own: SearchOptions) -> tuple[Cell, ...]:
    from perfcast.searches.sweep.cells import expand_grid

    if not own.batch_sizes:
        raise click.UsageError("--global-batch-size N: how many sequences has a step?")
    if own.sequence_lengths:
        return expand_grid(own.models, own.clusters, own.batch_sizes, own.sequence_lengths)
    return tuple(
        cell
        for model in own.models
        for cell in expand_grid([model], own.clusters, own.batch_sizes, [_own_length(model)])
    )


def _own_length(model: str) -> int:
    """The sequence length that a model states.

    Raises:
        ModelError: It states none.
    """
    from perfcast.prediction.model import read_model

    return read_model(model).sequence_length(None)


def _open_pool(own: SearchOptions) -> OpenPool:
    if own.backend == "ray":
        from perfcast.searches.sweep.ray_pool import ray_backend

        if own.address and own.processes is not None:
            raise click.UsageError("--processes is of a Ray that is started here, not of one at --address")
        return ray_backend(own.address, own.processes)
    if own.address:
        raise click.UsageError("--address is of --backend ray")
    if own.processes is not None:
        raise click.UsageError("--processes of a sweep goes with --backend ray")
    from perfcast.searches.sweep.workers import open_local_pool

    return open_local_pool
