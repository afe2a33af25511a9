"""One part in a process of its own: run as a program with the file of a job, beside which its result lies."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from perfcast.evidence.gpu_check.parts import run_part
from perfcast.evidence.gpu_check.place import LeftOutError, Place
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
    place = Place(job["device"], Path(job["folder"]))
    start = time.perf_counter()
    try:
        found = run_part(job["part"], place)
        seconds = time.perf_counter() - start
        result = PartResult(
            name=job["part"], status="done", wall_seconds=seconds, rows=found.rows, details=found.details
        )
    except LeftOutError as error:
        seconds = time.perf_counter() - start
        result = PartResult(name=job["part"], status="left_out", wall_seconds=seconds, reason=str(error))
    write_text_atomically(path.with_name(RESULT), json.dumps(result.to_json(), allow_nan=False))


if __name__ == "__main__":
    main(sys.argv[1:])
