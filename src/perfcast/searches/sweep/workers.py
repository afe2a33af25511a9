"""Batches of cells on workers: sent, awaited, sent again where a worker was lost.

A pool of workers does three things: it takes a batch, it waits until some batch ends, and it hands over what
became of a batch. ``LocalPool`` computes in this process; ``ray_pool`` has the pool of Ray. What the
driver makes of them is the same: it keeps a bounded number of batches under way, hands each finished
one to the caller once, and repeats those whose worker died.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from perfcast.errors import InputError
from perfcast.searches.sweep.cells import Cell, SearchCell, SweepJob
from perfcast.searches.sweep.store import search_part

#: A batch whose worker died this often is given up: it is then likely the batch that kills it.
MOST_ATTEMPTS = 5
#: Batches under way per worker: one runs, one waits, so that no worker is idle.
BATCHES_PER_SLOT = 2
#: Batches are made so large that one takes about this long: what a killed worker loses.
BATCH_SECONDS = 1.0
MOST_CELLS_OF_BATCH = 512


@dataclass(frozen=True, slots=True)
class Batch:
    """Cells that one task searches.

    Attributes:
        keys, cells: Of each cell, in one order.
        attempts: How often it was sent before.
    """

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    attempts: int = 0

    def again(self) -> Batch:
        """The same cells after a lost worker."""
        return Batch(self.keys, self.cells, self.attempts + 1)


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """A finished batch: its Parquet bytes and how long its cells took."""

    data: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class Lost:
    """A batch whose worker, or the machine that held its result, is gone."""

    reason: str


class Pool(Protocol):
    """Workers that search batches of cells; a ticket stands for a batch under way."""

    def count_slots(self) -> int:
        """How many batches run at the same time."""

    def submit(self, batch: Batch) -> object:
        """Start a batch; returns its ticket, which is hashable."""

    def wait(self, tickets: Sequence[object]) -> Sequence[object]:
        """Block until a batch has ended; returns the tickets of those that have."""

    def collect(self, ticket: object) -> FinishedBatch | Lost:
        """What became of an ended batch; an error of the search is raised here."""

    def cancel(self, tickets: Sequence[object]) -> None:
        """Stop batches whose results nobody wants any more."""


OpenPool = Callable[[SweepJob], AbstractContextManager[Pool]]


def run_batches(
    pool: Pool, cells: Mapping[str, Cell], cells_per_batch: int | None = None
) -> Iterator[tuple[Batch, FinishedBatch]]:
    """Search cells on a pool; each comes back in exactly one finished batch, in any order.

    Args:
        pool: Who searches.
        cells: By their keys.
        cells_per_batch: None: as many as take about ``BATCH_SECONDS``.

    Raises:
        InputError: A batch lost its worker ``MOST_ATTEMPTS`` times.
    """
    waiting, repeats = deque(cells.items()), deque[Batch]()
    under_way: dict[object, Batch] = {}
    size = cells_per_batch or 1
    try:
        while waiting or repeats or under_way:
            while (waiting or repeats) and len(under_way) < BATCHES_PER_SLOT * pool.count_slots():
                batch = repeats.popleft() if repeats else _take(waiting, size)
                under_way[pool.submit(batch)] = batch
            for ticket in pool.wait(list(under_way)):
                batch, result = under_way[ticket], pool.collect(ticket)
                del under_way[ticket]
                if isinstance(result, Lost):
                    repeats.append(_repeat(batch, result))
                    continue
                if cells_per_batch is None:
                    size = next_size(size, len(batch.cells), result.seconds)
                yield batch, result
    finally:
        pool.cancel(list(under_way))


def next_size(size: int, num_cells: int, seconds: float) -> int:
    """Cells of the next batch after one of ``num_cells`` took ``seconds``: grows fourfold at most.

    >>> next_size(10, 10, 0.5), next_size(10, 10, 0.01), next_size(10, 10, 20.0)
    (20, 40, 1)
    """
    most = min(4 * size, MOST_CELLS_OF_BATCH)
    wanted = num_cells * BATCH_SECONDS
    return most if wanted >= most * seconds else max(1, int(wanted / seconds))


def _take(waiting: deque[tuple[str, Cell]], size: int) -> Batch:
    taken = [waiting.popleft() for _ in range(min(size, len(waiting)))]
    return Batch(tuple(key for key, _ in taken), tuple(cell for _, cell in taken))


def _repeat(batch: Batch, lost: Lost) -> Batch:
    again = batch.again()
    if again.attempts >= MOST_ATTEMPTS:
        more = f" and {len(batch.cells) - 1} more" if len(batch.cells) > 1 else ""
        raise InputError(
            f"{again.attempts} workers died one after another on: {batch.cells[0]}{more} "
            f"(the last: {lost.reason}). The finished cells are kept; give the workers more memory, "
            f"or leave these cells out"
        )
    return again


def compute_part(search: SearchCell, job: SweepJob, batch: Batch) -> FinishedBatch:
    """Search a batch where this is called."""
    began = time.perf_counter()
    data = search_part(search, job, batch.keys, batch.cells)
    return FinishedBatch(data, time.perf_counter() - began)


class LocalPool:
    """This process as the only worker: a batch is computed when its result is asked for."""

    def __init__(self, job: SweepJob) -> None:
        self._job = job
        self._search = job.open_search(job.settings)

    def count_slots(self) -> int:
        """One."""
        return 1

    def submit(self, batch: Batch) -> object:
        """The batch is its own ticket."""
        return batch

    def wait(self, tickets: Sequence[object]) -> Sequence[object]:
        """The one that was submitted first."""
        return tickets[:1]

    def collect(self, ticket: object) -> FinishedBatch | Lost:
        """Compute it."""
        assert isinstance(ticket, Batch)
        return compute_part(self._search, self._job, ticket)

    def cancel(self, tickets: Sequence[object]) -> None:
        """Nothing runs that could be stopped."""


@contextmanager
def open_local_pool(job: SweepJob) -> Iterator[Pool]:
    """A pool that is this process."""
    yield LocalPool(job)
