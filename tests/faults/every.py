"""Every subject, killed so often: ``python tests/faults/every.py --kills 50``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.jobs import kill_jobs
from faults.kills import Count, put_to_it
from faults.listing import subjects

#: What no store keeps: jobs of ``perfcast web``.
JOBS = "jobs of the page"


def tell(name: str, count: Count) -> None:
    """How far a subject is."""
    if count.hits % 10 == 0:
        print(f"  {name}: {count.hits} kills, {count.compared} compared", flush=True)


def main() -> None:
    """Parse, kill, and say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="subjects whose names begin so, by commas")
    asked = parser.parse_args()
    for name in [*subjects(), JOBS]:
        if not name.startswith(tuple(asked.only.split(","))):
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="perfcast-faults-") as folder:
            count = _kill(name, Path(folder), asked.kills, asked.seed)
        print(f"{name}: {count} [{time.monotonic() - began:.0f} s]", flush=True)


def _kill(name: str, folder: Path, kills: int, seed: int) -> Count:
    if name == JOBS:
        return kill_jobs(kills, seed, partial(tell, name))
    return put_to_it(subjects()[name], folder, kills, seed, partial(tell, name))


if __name__ == "__main__":
    main()
