"""Sweeps that stop and go on: nothing lost, nothing computed twice."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from perfcast.errors import ModelError, PlanError
from perfcast.searches.sweep.cells import SweepJob, expand_grid
from perfcast.searches.sweep.run import SweepProgress, run_sweep
from perfcast.searches.sweep.store import write_table

CELLS = expand_grid(["a", "b"], ["x:8"], range(1, 11), [1024])
COLUMNS = {"seconds": float}


def job_of(search):
    """A job of one search, which is opened with no settings."""

    def open_search(settings):
        return search

    return SweepJob(open_search, COLUMNS, {}, {"perfcast": "1"})


def rows_of(cell):
    if cell.global_batch_size == 7:
        raise PlanError("7 divides nothing")
    return [{"seconds": 1.0 * cell.global_batch_size}, {"seconds": 2.0}]


def test_a_second_run_computes_nothing(tmp_path):
    searched = Counter()

    def search(cell):
        searched[cell] += 1
        return rows_of(cell)

    first = run_sweep(CELLS, job_of(search), tmp_path, cells_per_batch=3)
    second = run_sweep(CELLS, job_of(search), tmp_path)
    assert searched == Counter(CELLS)
    assert first.progress == SweepProgress(20, 0, 20)
    assert second.progress == SweepProgress(20, 20, 0)
    assert write_table(first.table) == write_table(second.table)
    assert first.table.height == 18 * 2 + 2


def test_where_nothing_is_left_no_pool_is_opened(tmp_path):
    run_sweep(CELLS, job_of(rows_of), tmp_path)

    def open_pool(job):
        raise AssertionError

    assert run_sweep(CELLS, job_of(rows_of), tmp_path, open_pool=open_pool).progress.num_reused == 20


@pytest.mark.parametrize("error", [KeyboardInterrupt, ModelError, ZeroDivisionError])
def test_a_run_that_is_stopped_is_gone_on_with(tmp_path, error):
    searched = Counter()

    def stops(cell):
        if len(searched) == 8:
            raise error("stopped")
        searched[cell] += 1
        return rows_of(cell)

    def goes_on(cell):
        searched[cell] += 1
        return rows_of(cell)

    with pytest.raises((KeyboardInterrupt, ModelError.__base__, ZeroDivisionError)):
        run_sweep(CELLS, job_of(stops), tmp_path, cells_per_batch=2)
    # Both searches are called open_search in job_of: one job.
    done = run_sweep(CELLS, job_of(goes_on), tmp_path, cells_per_batch=3)
    assert searched == Counter(CELLS)
    assert (done.progress.num_reused, done.progress.num_computed) == (8, 12)
    assert done.table.equals(run_sweep(CELLS, job_of(rows_of), tmp_path / "alone").table)


def test_a_larger_grid_takes_over_what_a_smaller_one_computed(tmp_path):
    run_sweep(CELLS[:5], job_of(rows_of), tmp_path)
    both = run_sweep(CELLS, job_of(rows_of), tmp_path)
    assert both.progress == SweepProgress(20, 5, 15)
    assert run_sweep(CELLS[:5], job_of(rows_of), tmp_path).table.height == 10


def test_a_cell_given_twice_counts_once(tmp_path):
    result = run_sweep([CELLS[0], CELLS[0]], job_of(rows_of), tmp_path)
    assert result.progress == SweepProgress(1, 0, 1)
    assert result.table.height == 2


def test_no_cells_make_an_empty_table(tmp_path):
    assert run_sweep([], job_of(rows_of), tmp_path).table.is_empty()


def test_the_search_is_opened_once_with_the_settings(tmp_path):
    opened = []

    def open_search(settings):
        opened.append(settings)
        return rows_of

    run_sweep(CELLS, SweepJob(open_search, COLUMNS, {"goal": "time"}, {}), tmp_path, cells_per_batch=1)
    assert opened == [{"goal": "time"}]


def test_progress_is_told_after_every_batch(tmp_path):
    told = []
    run_sweep(CELLS, job_of(rows_of), tmp_path, cells_per_batch=8, watch=told.append)
    assert [progress.num_finished for progress in told] == [0, 8, 16, 20]


def test_a_note_says_what_was_kept_and_what_was_repeated():
    assert SweepProgress(200, 100, 5, 1).note == (
        "(100 from earlier runs, 1 batches repeated after a lost worker)"
    )
    assert SweepProgress(200, 0, 5).note == ""


SLOW = """
import sys, time
from pathlib import Path
from perfcast.searches.sweep.cells import Cell, SweepJob
from perfcast.searches.sweep.run import run_sweep

def open_search(settings):
    def search(cell):
        time.sleep(0.02)
        return [{"seconds": 1.0}]
    return search

if __name__ == "__main__":
    cells = [Cell("a", "x", n, 1) for n in range(1, 1001 if sys.argv[2] == "long" else 41)]
    result = run_sweep(cells, SweepJob(open_search, {"seconds": float}, {}, {}), Path(sys.argv[1]),
                       cells_per_batch=5)
    print(result.progress.num_reused, result.progress.num_computed, result.table.height)
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_what_a_killed_driver_had_finished_is_kept(tmp_path, ending):
    program, store = tmp_path / "slow.py", tmp_path / "store"
    program.write_text(SLOW)
    driver = subprocess.Popen(
        [sys.executable, program, store, "long"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    limit = time.monotonic() + 60
    while len(list(store.glob("*/*.parquet"))) < 2 and time.monotonic() < limit:
        time.sleep(0.01)
    os.kill(driver.pid, ending)
    output, _ = driver.communicate()
    assert output == b""
    kept = 5 * len(list(store.glob("*/*.parquet")))
    assert kept >= 10
    output = subprocess.check_output([sys.executable, program, store, "short"])
    kept = min(kept, 40)
    assert output.decode().split() == [str(kept), str(40 - kept), "40"]
