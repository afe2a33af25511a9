"""From the question of ``perfcast search`` over models × clusters × batches × lengths to its cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.errors import QuestionError
from perfcast.verbs.search.question import SearchQuestion

if TYPE_CHECKING:
    from perfcast.searches.sweep.cells import Cell
    from perfcast.searches.sweep.workers import OpenPool


def cells_of(asked: SearchQuestion) -> tuple[Cell, ...]:
    """Every combination that is asked for.

    Raises:
        QuestionError: Without a batch.
        ModelError: A model that states no length, where none is said.
    """
    from perfcast.searches.sweep.cells import expand_grid

    if not asked.batch_sizes:
        raise QuestionError("--global-batch-size N: how many sequences has a step?")
    if asked.sequence_lengths:
        return expand_grid(asked.models, asked.clusters, asked.batch_sizes, asked.sequence_lengths)
    return tuple(
        cell
        for model in asked.models
        for cell in expand_grid([model], asked.clusters, asked.batch_sizes, [_own_length(model)])
    )


def _own_length(model: str) -> int:
    """The sequence length that a model states.

    Raises:
        ModelError: It states none.
    """
    from perfcast.prediction.model import read_model

    return read_model(model).sequence_length(None)


def pool_of(asked: SearchQuestion) -> OpenPool:
    """Who computes the cells.

    Raises:
        QuestionError: Options of another backend.
    """
    if asked.backend_word == "ray":
        from perfcast.searches.sweep.ray_pool import ray_backend

        if asked.address and asked.processes is not None:
            raise QuestionError("--processes is of a Ray that is started here, not of one at --address")
        return ray_backend(asked.address, asked.processes)
    if asked.address:
        raise QuestionError("--address is of --backend ray")
    if asked.processes is not None:
        raise QuestionError("--processes of a sweep goes with --backend ray")
    from perfcast.searches.sweep.workers import open_local_pool

    return open_local_pool


def store_of(asked: SearchQuestion) -> Path:
    """Folder of finished cells."""
    from perfcast.cost.profile import data_folder

    return Path(asked.store) if asked.store else data_folder() / "sweeps"
