"""Run a sweep: search the cells that the store does not hold yet, and return the table of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.searches.sweep.cells import Cell, SweepJob, key_cells
from perfcast.searches.sweep.store import open_store
from perfcast.searches.sweep.workers import OpenPool, open_local_pool, run_batches

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is.

    Attributes:
        num_cells: Of the sweep.
        num_reused: Finished before this run.
        num_computed: Finished by this run and kept.
        num_repeated: Batches sent again because their worker died.
    """

    num_cells: int
    num_reused: int
    num_computed: int = 0
    num_repeated: int = 0

    @property
    def num_finished(self) -> int:
        """Cells that the store holds."""
        return self.num_reused + self.num_computed

    @property
    def note(self) -> str:
        """What else there is to say, in brackets; '' where nothing is."""
        parts = []
        if self.num_reused:
            parts.append(f"{self.num_reused} from earlier runs")
        if self.num_repeated:
            parts.append(f"{self.num_repeated} batches repeated after a lost worker")
        return f"({', '.join(parts)})" if parts else ""


Watch = Callable[[SweepProgress], None]


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A finished sweep.

    Attributes:
        table: A row per cell and place, in the order of the cells: the same whoever computed it, and when.
        progress: What this run did for it.
        folder: Where the store is.
    """

    table: pl.DataFrame
    progress: SweepProgress
    folder: Path


def run_sweep(
    cells: Sequence[Cell],
    job: SweepJob,
    folder: Path,
    *,
    open_pool: OpenPool = open_local_pool,
    cells_per_batch: int | None = None,
    watch: Watch | None = None,
) -> SweepResult:
    """Search every cell once, over as many runs as it takes.

    Finished cells are kept batch by batch; whatever ends a run (an error, Ctrl-C, a lost machine), the next
    run computes what is left. Where nothing is left, no pool is opened.

    Args:
        cells: See ``expand_grid``; a cell given twice counts once.
        job: How a cell is searched.
        folder: Of the store; one may serve many sweeps.
        open_pool: Who computes: ``open_local_pool``, or ``ray_pool.ray_backend(...)``.
        cells_per_batch: None: as many as take about a second.
        watch: Told after each batch.

    Raises:
        InputError: A cell that cannot be searched, a store that cannot be used, workers that keep dying.
    """
    by_key = dict(zip(key_cells(job, cells), cells, strict=True))
    with open_store(folder, job) as store:
        left = {key: cell for key, cell in by_key.items() if key not in store.finished}
        progress = SweepProgress(len(by_key), len(by_key) - len(left))
        tell = watch or (lambda progress: None)
        tell(progress)
        if left:
            with open_pool(job) as pool:
                for batch, part in run_batches(pool, left, cells_per_batch):
                    store.add(batch.keys, part.data)
                    progress = SweepProgress(
                        progress.num_cells,
                        progress.num_reused,
                        progress.num_computed + len(batch.cells),
                        progress.num_repeated + batch.attempts,
                    )
                    tell(progress)
        return SweepResult(store.read(list(by_key)), progress, store.folder)
