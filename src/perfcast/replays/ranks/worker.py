"""A process of ``ranks.run_ranks``: ``python -m perfcast.replays.ranks.worker FOLDER RANK``.

The folder holds each rank's job, and afterwards its result or what went wrong.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perfcast.errors import InputError
from perfcast.files.typed_json import read_typed, write_typed
from perfcast.files.writing import write_bytes_atomically, write_text_atomically
from perfcast.measure.collectives.environment import Place
from perfcast.measure.collectives.plan import Backend
from perfcast.replays.ranks.context import RankContext, join


@dataclass(frozen=True)
class RankJob:
    """What a started process does: a function by its name, its argument, and where the others are."""

    function: str
    job: object
    place: Place
    backend: Backend


def work(folder: Path, rank: int) -> None:
    """What a started process does: its job, and its result or its error into the folder."""
    task: RankJob = read_typed(job_path(folder, rank).read_bytes())
    try:
        context = join(task.place, task.backend)
        result = _function_of(task.function)(task.job, context)
        write_bytes_atomically(result_path(folder, rank), write_typed(result))
        context.leave()
    except InputError as error:
        write_text_atomically(error_path(folder, rank), str(error))
        raise SystemExit(2) from None


def job_path(folder: Path, rank: int) -> Path:
    """Where the job of a rank is."""
    return folder / f"rank{rank}.job.json"


def result_path(folder: Path, rank: int) -> Path:
    """Where a rank leaves its result."""
    return folder / f"rank{rank}.result.json"


def error_path(folder: Path, rank: int) -> Path:
    """Where a rank says what went wrong."""
    return folder / f"rank{rank}.error.txt"


def _function_of(name: str) -> Callable[[object, RankContext], object]:
    module, _, attribute = name.partition(":")
    function: Callable[[object, RankContext], object] = getattr(importlib.import_module(module), attribute)
    return function


def _leave_with_the_parent() -> None:
    """The parent holds the other end of standard input; when it is gone, so is this process."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    work(Path(sys.argv[1]), int(sys.argv[2]))
