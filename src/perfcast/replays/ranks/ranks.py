"""A replay of several ranks: one process each, started here or by a launcher such as torchrun.

What a rank does is a function of the caller's: a job, which ``typed_json`` passes, and the rank's context in,
data out. Whatever ends one rank ends all of them, and says which it was.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from perfcast.errors import CalibrationError, TraceError
from perfcast.files.typed_json import read_typed, write_typed
from perfcast.files.writing import write_bytes_atomically
from perfcast.measure.collectives.environment import Place
from perfcast.measure.collectives.launch import first_sentence, local_environment, run_together
from perfcast.measure.collectives.plan import BACKENDS, Backend
from perfcast.replays.ranks.context import RankContext, join
from perfcast.replays.ranks.worker import RankJob, error_path, job_path, result_path

Job = TypeVar("Job")
Result = TypeVar("Result")
#: Ranks of one machine: each is a process with a PyTorch of its own.
MOST_RANKS = 256


def run_ranks(
    function: Callable[[Job, RankContext], Result], jobs: Sequence[Job], *, backend: Backend = "gloo"
) -> list[Result]:
    """Start one process for each job on this machine, and return what the function made of each.

    Args:
        function: Of a module, so that the processes find it by its name.

    Raises:
        TraceError: No job or too many, no such backend or too few GPUs, or a rank failed: says which and
            why; the others were stopped.
    """
    if not 1 <= len(jobs) <= MOST_RANKS:
        raise TraceError(f"{len(jobs)} ranks cannot be started here: 1 to {MOST_RANKS} can")
    if backend not in BACKENDS:
        raise TraceError(f"collectives go by {' or '.join(BACKENDS)}, not '{backend}'")
    name = _name_of(function)
    with tempfile.TemporaryDirectory(prefix="perfcast-replay-") as made:
        folder = Path(made)
        meeting = (folder / "rendezvous").as_uri()
        for rank, job in enumerate(jobs):
            task = RankJob(name, job, Place(rank, len(jobs), rank, meeting, "perfcast"), backend)
            write_bytes_atomically(job_path(folder, rank), write_typed(task))
        program = [sys.executable, "-m", "perfcast.replays.ranks.worker", str(folder)]
        try:
            run_together([[*program, str(r)] for r in range(len(jobs))], folder, local_environment())
        except CalibrationError as error:
            raise TraceError(_what_failed(folder, len(jobs)) or f"{error}; the others were stopped") from None
        results = [result_path(folder, rank).read_bytes() for rank in range(len(jobs))]
        return [read_typed(result) for result in results]


def run_as_rank(
    function: Callable[[RankContext], Result], place: Place, *, backend: Backend = "gloo"
) -> list[Result] | None:
    """Be one rank of those that a launcher started; rank 0 gets what every rank made, the others ``None``.

    Raises:
        TraceError: The others are not found, or one of them stopped answering.
    """
    context = join(place, backend)
    try:
        found = context.gather(function(context))
        context.leave()
    except (RuntimeError, OSError) as error:
        reason = first_sentence(str(error))
        raise TraceError(f"rank {place.rank} lost the others ({reason})") from None
    return found if place.rank == 0 else None


def _name_of(function: Callable[[Job, RankContext], Result]) -> str:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "." in name or "<" in name:
        raise ValueError(f"{module}:{name} cannot be found by name in another process")
    return f"{module}:{name}"


def _what_failed(folder: Path, num_ranks: int) -> str:
    """What the first rank that gave a reason said; '' where none did."""
    for rank in range(num_ranks):
        if error_path(folder, rank).exists():
            return f"rank {rank}: {error_path(folder, rank).read_text(encoding='utf-8')}"
    return ""
