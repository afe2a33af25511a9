"""The pool of Ray: batches as tasks on the processors of one machine or of many.

Every node needs the same perfcast (``pip install 'perfcast[ray]'``) and, where cells name files, the same
files under the same paths; a worker that would compute something else than the driver asks for refuses. The
driver alone writes the store, so the nodes share no folder. A task that is lost is sent again by
``distributed.run_batches``, which counts it, and not by Ray itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from perfcast.errors import InputError, PerfcastError
from perfcast.searches.sweep.cells import SearchCell, SweepJob, key_cells, list_versions
from perfcast.searches.sweep.workers import Batch, FinishedBatch, Lost, OpenPool, Pool, compute_part

#: How long a cluster's head may take to answer.
ANSWER_SECONDS = 10.0


def ray_backend(address: str | None = None, num_cpus: int | None = None) -> OpenPool:
    """Workers of Ray.

    Args:
        address: ``HOST:PORT`` of a running cluster's head, or 'auto' for the one that this machine belongs
            to; None starts one on this machine for the sweep alone.
        num_cpus: Workers of a cluster started here; by default one per processor.

    Raises:
        InputError: Ray is not installed; on opening: the address does not answer.
    """
    ray = _import_ray()

    @contextmanager
    def open_pool(job: SweepJob) -> Iterator[Pool]:
        started_before = ray.is_initialized()
        if not started_before:
            _connect(ray, address, num_cpus)
        try:
            yield RayPool(ray, job)
        finally:
            if not started_before:
                ray.shutdown()

    return open_pool


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("Ray is not installed: pip install 'perfcast[ray]'") from None
    return ray


def _connect(ray: Any, address: str | None, num_cpus: int | None) -> None:
    """Start or join a cluster; a cluster of our own sends no usage reports."""
    options: dict[str, object] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options |= {"num_cpus": num_cpus, "include_dashboard": False}
    elif address != "auto":
        _check_answers(address)
    try:
        ray.init(address=address or "local", **options)
    # Ray ends the process where a head that it reached does not speak its protocol.
    except (ConnectionError, ValueError, RuntimeError, SystemExit) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(_no_cluster(address or "this machine", f"Ray says: {reason}")) from None


def _check_answers(address: str) -> None:
    """Whether somebody listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"'{address}' is no address of a Ray cluster: write HOST:PORT of its head, or auto")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise InputError(_no_cluster(address, (error.strerror or str(error)).lower())) from None


def _no_cluster(address: str, reason: str) -> str:
    return (
        f"no Ray cluster at {address}: {reason}. Start one with `ray start --head`, or leave the address out"
    )


class RayPool:
    """One task of Ray per batch, one processor per task."""

    def __init__(self, ray: Any, job: SweepJob) -> None:
        self._ray, self._job = ray, job
        self._task = ray.remote(num_cpus=1, max_retries=0)(compute_remotely)

    def count_slots(self) -> int:
        """Processors of the nodes that are alive now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def submit(self, batch: Batch) -> object:
        """Send the batch; the ticket is the reference to its result."""
        return self._task.remote(self._job, batch)

    def wait(self, tickets: Sequence[object]) -> Sequence[object]:
        """Block until at least one has ended, well or not."""
        ended: Sequence[object] = self._ray.wait(list(tickets), num_returns=1)[0]
        return ended

    def collect(self, ticket: object) -> FinishedBatch | Lost:
        """The part, or why it is lost.

        Raises:
            PerfcastError: The search's own, as it was raised on the worker.
            InputError: The worker cannot load the search.
            RayTaskError: Any other error of the search, with the worker's traceback.
        """
        errors = self._ray.exceptions
        try:
            part: FinishedBatch = self._ray.get(ticket)
        except errors.RayTaskError as error:
            if isinstance(error.cause, PerfcastError):
                raise error.cause from None
            if isinstance(error.cause, errors.RaySystemError):
                reason = next(line for line in str(error.cause).splitlines() if line)
                raise InputError(
                    f"a worker cannot load the search: {reason}. Install the same perfcast on every node"
                ) from None
            raise
        except (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.LocalRayletDiedError,
            errors.OutOfMemoryError,
            errors.ObjectLostError,
        ) as error:
            return Lost(str(error).partition("\n")[0])
        return part

    def cancel(self, tickets: Sequence[object]) -> None:
        """Kill what still runs."""
        for ticket in tickets:
            self._ray.cancel(ticket, force=True)


def compute_remotely(job: SweepJob, batch: Batch) -> FinishedBatch:
    """What a worker of Ray does with a batch.

    Raises:
        InputError: The worker would compute something else than the driver asks for.
    """
    _check_versions(job.versions, list_own_versions())
    if tuple(key_cells(job, batch.cells)) != batch.keys:
        raise InputError(
            f"{batch.cells[0]}: a file named there differs between the driver and {os.uname().nodename}; "
            f"give all nodes the same files under absolute paths"
        )
    return compute_part(_opened(job), job, batch)


def _check_versions(wanted: Mapping[str, str], own: Mapping[str, str]) -> None:
    differing = {name for name in wanted.keys() | own.keys() if wanted.get(name) != own.get(name)}
    if differing:
        pairs = ", ".join(f"{n} {own.get(n)} instead of {wanted.get(n)}" for n in sorted(differing))
        raise InputError(
            f"the worker on {os.uname().nodename} has {pairs}: install the driver's versions on every node"
        )


@cache
def list_own_versions() -> Mapping[str, str]:
    """The versions of this process, read once."""
    return list_versions()


@cache
def _opened(job: SweepJob) -> SearchCell:
    """The search of a job: opened once per worker process, however many batches it computes."""
    return job.open_search(job.settings)
