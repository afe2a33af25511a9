"""Batches on workers that finish in any order and die: a fake pool stands for real machines."""

import random
from collections import Counter
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import InputError
from perfcast.searches.sweep.cells import Cell, SweepJob, expand_grid, key_cells
from perfcast.searches.sweep.run import run_sweep
from perfcast.searches.sweep.workers import (
    BATCHES_PER_SLOT,
    MOST_ATTEMPTS,
    MOST_CELLS_OF_BATCH,
    FinishedBatch,
    Lost,
    compute_part,
    next_size,
    run_batches,
)


def open_toy(settings):
    return lambda cell: [{"seconds": 1.0 * cell.global_batch_size}]


JOB = SweepJob(open_toy, {"seconds": float}, {}, {"perfcast": "1"})
CELLS = expand_grid(["a", "b"], ["x:8"], range(1, 11), [1024])
BY_KEY = dict(zip(key_cells(JOB, CELLS), CELLS, strict=True))
EACH_ONCE = Counter(list(BY_KEY))


class FakePool:
    """Workers that end in random order and die as often as told; counts what it is asked."""

    def __init__(self, slots=2, seed=0, deaths=0, doomed=None):
        self._slots, self._draw = slots, random.Random(seed)
        self._deaths, self._doomed = deaths, doomed
        self._running = {}
        self.searched, self.most_under_way, self.cancelled = Counter(), 0, []

    def count_slots(self):
        return self._slots

    def submit(self, batch):
        ticket = object()
        self._running[ticket] = batch
        self.most_under_way = max(self.most_under_way, len(self._running))
        return ticket

    def wait(self, tickets):
        return self._draw.sample(list(tickets), self._draw.randint(1, len(tickets)))

    def collect(self, ticket):
        batch = self._running.pop(ticket)
        if self._doomed in batch.cells or (self._deaths and self._draw.random() < 0.5):
            self._deaths -= 1
            return Lost("worker killed")
        self.searched.update(batch.keys)
        return self.compute(batch)

    def compute(self, batch):
        return FinishedBatch(b"", 0.1)

    def cancel(self, tickets):
        self.cancelled += tickets


class SearchingPool(FakePool):
    def compute(self, batch):
        return compute_part(open_toy({}), JOB, batch)


@given(seed=st.integers(0, 1000), slots=st.integers(1, 5), deaths=st.integers(0, 4), size=st.integers(1, 7))
def test_every_cell_comes_back_once_whoever_dies(seed, slots, deaths, size):
    pool = FakePool(slots, seed, deaths)
    batches = [batch for batch, _ in run_batches(pool, BY_KEY, size)]
    assert Counter(key for batch in batches for key in batch.keys) == EACH_ONCE
    assert pool.searched == EACH_ONCE
    assert pool.most_under_way <= BATCHES_PER_SLOT * slots
    assert pool.cancelled == []


@pytest.mark.parametrize("deaths", [0, 4])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_table_is_the_same_whoever_computed_it(tmp_path, seed, deaths):
    @contextmanager
    def open_pool(job):
        yield SearchingPool(3, seed, deaths)

    alone = run_sweep(CELLS, JOB, tmp_path / "alone")
    spread = run_sweep(CELLS, JOB, tmp_path / "spread", open_pool=open_pool, cells_per_batch=3)
    assert spread.table.equals(alone.table)
    assert spread.progress.num_computed == alone.progress.num_computed == len(CELLS)


def test_a_batch_that_kills_its_workers_is_given_up_by_name():
    with pytest.raises(
        InputError, match=f"{MOST_ATTEMPTS} workers died .* a on x:8, batch 3, .* worker killed"
    ):
        list(run_batches(FakePool(doomed=Cell("a", "x:8", 3, 1024)), BY_KEY, 1))


def test_what_is_under_way_is_cancelled_when_the_caller_stops():
    pool = FakePool(slots=2)
    running = run_batches(pool, BY_KEY, 1)
    next(running)
    running.close()
    assert pool.cancelled


def test_batches_grow_until_one_takes_about_a_second():
    class Timed(FakePool):
        def collect(self, ticket):
            batch = self._running.pop(ticket)
            return FinishedBatch(b"", 0.1 * len(batch.cells))

    cells = {str(n): Cell("a", "x", n, 1) for n in range(1, 100)}
    sizes = [len(batch.cells) for batch, _ in run_batches(Timed(slots=1), cells)]
    assert sizes[0] == 1
    assert max(sizes) == 10


@given(size=st.integers(1, 512), seconds=st.floats(0, 1e3))
def test_a_batch_has_a_cell_at_least_and_a_bounded_number_at_most(size, seconds):
    assert 1 <= next_size(size, size, seconds) <= min(4 * size, MOST_CELLS_OF_BATCH)
