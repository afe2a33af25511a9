"""A process of ``ranks.run_ranks``: ``python -m perfcast.replay.ranks.worker FOLDER RANK``.

The folder holds each rank's job, and afterwards its result or what went wrong.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from perfcast.errors import InputError
from perfcast.files import write_text_atomically
from perfcast.measure.collectives.environment import Place
from perfcast.replay.ranks.context import join


def work(folder: Path, rank: int) -> None:
    """What a started process does: its job, and its result or its error into the folder."""
    task = read(job_path(folder, rank))
    place = Place(rank, task["world_size"], rank, task["init_method"], "perfcast")
    try:
        context = join(place, task["backend"])
        result = _function_of(task["function"])(task["job"], context)
        write_text_atomically(result_path(folder, rank), json.dumps(result))
        context.leave()
    except InputError as error:
        write_text_atomically(error_path(folder, rank), json.dumps(str(error)))
        raise SystemExit(2) from None


def job_path(folder: Path, rank: int) -> Path:
    """Where the job of a rank is."""
    return folder / f"rank{rank}.job.json"


def result_path(folder: Path, rank: int) -> Path:
    """Where a rank leaves its result."""
    return folder / f"rank{rank}.result.json"


def error_path(folder: Path, rank: int) -> Path:
    """Where a rank says what went wrong."""
    return folder / f"rank{rank}.error.json"


def read(path: Path) -> Any:
    """What one of these files holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def _function_of(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _leave_with_the_parent() -> None:
    """The parent holds the other end of standard input; when it is gone, so is this process."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    work(Path(sys.argv[1]), int(sys.argv[2]))
