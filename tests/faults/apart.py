"""The harness in a process of its own.

It forks, and what libraries have started in a process of other tests (polars' and PyTorch's threads) does not
survive that: the fork would wait for threads that it has not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faults import kills
from faults.kills import Count
from faults.listing import subjects

TESTS = Path(__file__).resolve().parents[1]


def put_to_it_apart(name: str, folder: Path, kills: int, seed: int) -> Count:
    """``kills.put_to_it`` of a subject.

    Raises:
        AssertionError: As there.
    """
    return Count(**_told("put_to_it", name, folder, kills=kills, seed=seed))


def fail_in_turn_apart(name: str, folder: Path, error: int, *, times: int, seed: int) -> list[str]:
    """``kills.fail_in_turn`` of a subject; what was said.

    Raises:
        AssertionError: As there.
    """
    found: list[str] = _told("fail_in_turn", name, folder, number=error, times=times, seed=seed)
    return found


def run_two_apart(name: str, folder: Path) -> list[str]:
    """``kills.run_two_at_once`` of a subject; what was refused.

    Raises:
        AssertionError: As there.
    """
    found: list[str] = _told("run_two_at_once", name, folder)
    return found


def _told(function: str, name: str, folder: Path, **options: object) -> Any:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, "-m", "faults.apart", function, name, str(folder), json.dumps(options)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def main(function: str, name: str, folder: str, options: str) -> None:
    """Do it and say what came of it, as JSON on the last line."""
    found = getattr(kills, function)(subjects()[name], Path(folder), **json.loads(options))
    print(json.dumps(asdict(found) if function == "put_to_it" else found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
