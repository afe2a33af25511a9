"""A replay of several ranks: one process each, started here or by a launcher such as torchrun.

What a rank does is a function of the caller's: a job (plain data, as JSON has it) and the rank's context
in, plain data out. Whatever ends one rank ends all of them, and says which it was.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from perfcast.errors import CalibrationError, TraceError
from perfcast.files import write_text_atomically
from perfcast.measure.collectives.environment import Place
from perfcast.measure.collectives.launch import first_sentence, local_environment, run_together
from perfcast.replay.ranks.context import BACKENDS, RankContext, join
from perfcast.replay.ranks.worker import error_path, job_path, read, result_path

Job: TypeAlias = Mapping[str, Any]
RankFunction: TypeAlias = Callable[[Job, RankContext], Any]
#: Ranks of one machine: each is a process with a PyTorch of its own.
MOST_RANKS = 256


def run_ranks(
    function: RankFunction,
    jobs: Sequence[Job],
    *,
    backend: str = "gloo",
    on_poll: Callable[[], None] | None = None,
) -> list[Any]:
    """Start one process for each job on this machine, and return what the function made of each.

    Args:
        function: Of a module, so that the processes find it by its name.
        on_poll: Called several times a second meanwhile.

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
        common = {
            "function": name,
            "backend": backend,
            "world_size": len(jobs),
            "init_method": (folder / "rendezvous").as_uri(),
        }
        for rank, job in enumerate(jobs):
            write_text_atomically(job_path(folder, rank), json.dumps(common | {"job": dict(job)}))
        program = [sys.executable, "-m", "perfcast.replay.ranks.worker", str(folder)]
        try:
            run_together([[*program, str(r)] for r in range(len(jobs))], folder, local_environment(), on_poll)
        except CalibrationError as error:
            raise TraceError(_what_failed(folder, len(jobs)) or f"{error}; the others were stopped") from None
        return [read(result_path(folder, rank)) for rank in range(len(jobs))]


def run_as_rank(function: RankFunction, job: Job, place: Place, *, backend: str = "gloo") -> list[Any] | None:
    """Be one rank of those that a launcher started; rank 0 gets what every rank made, the others ``None``.

    Raises:
        TraceError: The others are not found, or one of them stopped answering.
    """
    context = join(place, backend)
    try:
        found = context.gather(function(job, context))
        context.leave()
    except (RuntimeError, OSError) as error:
        reason = first_sentence(str(error))
        raise TraceError(f"rank {place.rank} lost the others ({reason})") from None
    return found if place.rank == 0 else None


def _name_of(function: RankFunction) -> str:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "." in name or "<" in name:
        raise ValueError(f"{module}:{name} cannot be found by name in another process")
    return f"{module}:{name}"


def _what_failed(folder: Path, num_ranks: int) -> str:
    """What the first rank that gave a reason said; '' where none did."""
    for rank in range(num_ranks):
        if error_path(folder, rank).exists():
            return f"rank {rank}: {read(error_path(folder, rank))}"
    return ""
