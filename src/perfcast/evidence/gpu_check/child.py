"""One part in a process of its own: run as a program with the file of a job, beside which its result lies."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from perfcast.evidence.gpu_check.machine import clocks_now
from perfcast.evidence.gpu_check.parts import run_part
from perfcast.evidence.gpu_check.place import Found, LeftOutError, Place
from perfcast.evidence.gpu_check.result import PartResult
from perfcast.files.reading import read_json
from perfcast.files.writing import write_text_atomically
from perfcast.measure.collectives.worker import leave_with_the_parent

RESULT = "result.json"


def main(arguments: list[str]) -> None:
    """``JOB.json``; whatever goes wrong in the part goes up, and the parent says it."""
    leave_with_the_parent()
    path = Path(arguments[0])
    job: Any = read_json(path, what="the job of a part")
    start = time.perf_counter()

    def keep(found: Found) -> None:
        seconds = time.perf_counter() - start
        stopped = PartResult(
            name=job["part"], status="failed", wall_seconds=seconds, rows=found.rows, details=found.details
        )
        write_text_atomically(path.with_name(RESULT), json.dumps(stopped.to_json(), allow_nan=False))

    place = Place(job["device"], Path(job["folder"]), keep)
    try:
        found = run_part(job["part"], place)
        seconds = time.perf_counter() - start
        clocks = {} if place.is_dry else {"clocks_after": clocks_now()}
        result = PartResult(
            name=job["part"], status="done", wall_seconds=seconds, rows=found.rows,
            details={**(found.details or {}), **clocks},
        )  # fmt: skip
    except (LeftOutError, ModuleNotFoundError) as error:
        seconds = time.perf_counter() - start
        result = PartResult(name=job["part"], status="left_out", wall_seconds=seconds, reason=_why(error))
    text = json.dumps(result.to_json(), allow_nan=False)
    write_text_atomically(path.with_name(RESULT), text, updates=True)


def _why(error: LeftOutError | ModuleNotFoundError) -> str:
    """A package that is not installed is something that this machine has not; a file of ours is a fault."""
    if not isinstance(error, ModuleNotFoundError):
        return str(error)
    if error.name is None or error.name.partition(".")[0] == "perfcast":
        raise error
    return f"the package {error.name.partition('.')[0]} is not installed here"


if __name__ == "__main__":
    main(sys.argv[1:])
