"""Sweeps on Ray. A fake of its few functions is always tried, Ray itself where it is installed."""

import importlib.util
import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfcast.errors import InputError, ModelError
from perfcast.searches.sweep import ray_pool
from perfcast.searches.sweep.cells import SweepJob, expand_grid, key_cells, list_versions
from perfcast.searches.sweep.ray_pool import RayPool, compute_remotely, ray_backend
from perfcast.searches.sweep.run import run_sweep
from perfcast.searches.sweep.store import write_table
from perfcast.searches.sweep.workers import Batch, FinishedBatch, Lost

CELLS = expand_grid(["a", "b"], ["x:8"], range(1, 11), [1024])
OPENED = []


def open_toy(settings):
    OPENED.append(settings)
    return lambda cell: [{"seconds": 1.0 * cell.global_batch_size}]


JOB = SweepJob(open_toy, {"seconds": float}, {"goal": "time"}, {"perfcast": "1"})
BATCH = Batch(tuple(key_cells(JOB, CELLS)), CELLS)


class WorkerCrashedError(Exception):
    pass


class RaySystemError(Exception):
    pass


class RayTaskError(Exception):
    def __init__(self, cause):
        self.cause = cause


class FakeRay:
    """``remote``, ``wait``, ``get`` … as the pool uses them; a reference is a function of no arguments."""

    exceptions = SimpleNamespace(
        RayTaskError=RayTaskError, WorkerCrashedError=WorkerCrashedError, NodeDiedError=WorkerCrashedError,
        LocalRayletDiedError=WorkerCrashedError, OutOfMemoryError=WorkerCrashedError,
        ObjectLostError=WorkerCrashedError, RaySystemError=RaySystemError,
    )  # fmt: skip

    def __init__(self, resources=None, fails=None):
        self._resources, self._fails = resources or {"CPU": 3.0}, fails
        self.options, self.inits, self.shutdowns, self.cancelled = {}, [], 0, []

    def is_initialized(self):
        return False

    def init(self, **options):
        self.inits.append(options)
        if isinstance(self._fails, ConnectionError | SystemExit):
            raise self._fails

    def shutdown(self):
        self.shutdowns += 1

    def cluster_resources(self):
        return self._resources

    def remote(self, **options):
        self.options = options
        return lambda function: SimpleNamespace(remote=lambda *given: lambda: function(*given))

    def wait(self, references, num_returns):
        return references[-num_returns:], references[:-num_returns]

    def get(self, reference):
        if self._fails:
            raise self._fails
        return reference()

    def cancel(self, reference, force):
        self.cancelled.append(reference)


@pytest.fixture
def same_versions(monkeypatch):
    monkeypatch.setattr(ray_pool, "list_own_versions", lambda: JOB.versions)


@pytest.mark.usefixtures("same_versions")
def test_a_sweep_by_tasks_equals_that_of_one_process(tmp_path, monkeypatch):
    ray = FakeRay()
    monkeypatch.setattr(ray_pool, "_import_ray", lambda: ray)
    OPENED.clear()
    spread = run_sweep(CELLS, JOB, tmp_path / "a", open_pool=ray_backend("auto"), cells_per_batch=2)
    assert OPENED == [{"goal": "time"}]
    assert ray.options == {"num_cpus": 1, "max_retries": 0}
    assert [options["address"] for options in ray.inits] == ["auto"]
    assert ray.shutdowns == 1
    assert write_table(spread.table) == write_table(run_sweep(CELLS, JOB, tmp_path / "b").table)


def test_a_pool_has_a_slot_per_processor_and_one_at_least():
    assert RayPool(FakeRay(), JOB).count_slots() == 3
    assert RayPool(FakeRay({"GPU": 1.0}), JOB).count_slots() == 1


def test_a_dead_worker_is_a_lost_batch_not_an_error():
    pool = RayPool(FakeRay(fails=WorkerCrashedError("died unexpectedly\nmore")), JOB)
    assert pool.collect(pool.submit(BATCH)) == Lost("died unexpectedly")


def test_an_error_of_the_search_is_raised_as_it_was():
    with pytest.raises(ModelError, match="no such model"):
        RayPool(FakeRay(fails=RayTaskError(ModelError("no such model"))), JOB).collect(None)
    with pytest.raises(RayTaskError):
        RayPool(FakeRay(fails=RayTaskError(ZeroDivisionError())), JOB).collect(None)


def test_a_worker_without_the_package_is_bad_input():
    error = RayTaskError(RaySystemError("System error: No module named 'perfcast'\ntraceback"))
    with pytest.raises(InputError, match=r"No module named 'perfcast'\. Install the same"):
        RayPool(FakeRay(fails=error), JOB).collect(None)


def test_what_is_cancelled_is_killed():
    ray = FakeRay()
    RayPool(ray, JOB).cancel(["a", "b"])
    assert ray.cancelled == ["a", "b"]


def test_a_worker_of_other_versions_refuses(monkeypatch):
    monkeypatch.setattr(ray_pool, "list_own_versions", lambda: {"perfcast": "2", "numpy": "9"})
    with pytest.raises(InputError, match="numpy 9 instead of None, perfcast 2 instead of 1: install"):
        compute_remotely(JOB, BATCH)


@pytest.mark.usefixtures("same_versions")
def test_a_worker_that_sees_other_files_refuses():
    with pytest.raises(InputError, match="a file named there differs"):
        compute_remotely(JOB, Batch(("f" * 32,), CELLS[:1]))


@pytest.mark.usefixtures("same_versions")
def test_a_worker_opens_a_search_once_for_all_batches():
    OPENED.clear()
    job = SweepJob(open_toy, {"seconds": float}, {"goal": "opened once"}, JOB.versions)
    for cell in CELLS[:3]:
        assert isinstance(compute_remotely(job, Batch(tuple(key_cells(job, [cell])), (cell,))), FinishedBatch)
    assert OPENED == [{"goal": "opened once"}]


@pytest.fixture
def listening():
    """An address where somebody listens, though no Ray."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("fails", [ConnectionError("could not be found\ntrace"), SystemExit(15)])
def test_an_address_that_is_no_cluster_is_bad_input(tmp_path, monkeypatch, listening, fails):
    monkeypatch.setattr(ray_pool, "_import_ray", lambda: FakeRay(fails=fails))
    with pytest.raises(InputError, match=rf"no Ray cluster at {listening}: Ray says: .* Start one with"):
        run_sweep(CELLS, JOB, tmp_path, open_pool=ray_backend(listening))


def test_an_address_where_nobody_listens_is_bad_input_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_pool, "_import_ray", FakeRay)
    with pytest.raises(InputError, match=r"no Ray cluster at 127\.0\.0\.1:1: connection refused"):
        run_sweep(CELLS, JOB, tmp_path, open_pool=ray_backend("127.0.0.1:1"))


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "ray://head"])
def test_what_is_no_address_is_bad_input(tmp_path, monkeypatch, address):
    monkeypatch.setattr(ray_pool, "_import_ray", FakeRay)
    with pytest.raises(InputError, match="write HOST:PORT"):
        run_sweep(CELLS, JOB, tmp_path, open_pool=ray_backend(address))


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_error_says_how_to_install_it():
    with pytest.raises(InputError, match=r"pip install 'perfcast\[ray\]'"):
        ray_backend()


# Ray's own: files that its start leaves open for its processes.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_sweep_on_ray_itself_equals_that_of_one_process(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    # Workers import this module by its name.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    job = SweepJob(open_toy, {"seconds": float}, {}, list_versions())
    spread = run_sweep(CELLS, job, tmp_path / "a", open_pool=ray_backend(num_cpus=1), cells_per_batch=5)
    assert spread.progress.num_computed == 20
    assert write_table(spread.table) == write_table(run_sweep(CELLS, job, tmp_path / "b").table)
