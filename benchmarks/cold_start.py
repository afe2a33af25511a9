"""How long a forecast takes from the shell: with nothing kept, and once its capture is kept.

Run by ``make bench``, or ``python benchmarks/cold_start.py [--repeats N]``. Every run is a process of its
own; medians are printed as wall seconds and, since other work on the machine stretches those, as seconds of
the processor. The least wall seconds of all repeats are held against the limits. Byte code is compiled once
before, as an installation does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from goals import Row, report

#: Command lines and the wall seconds that they are meant to stay under, with nothing kept and with a capture.
CASES: list[tuple[str, float | None, float]] = [
    ("--version", None, 0.3),
    ("--help", None, 0.3),
    ("predict gpt2-large --device h100-sxm --mode train --batch-size 4 --sequence-length 1024", 3.0, 1.5),
    ("predict llama3-8b --device h100-sxm --mode train --sequence-length 2048", 3.0, 1.5),
    ("predict vit-b-16 --device a100-sxm-80gb --mode train --batch-size 64", 3.0, 1.5),
    ("predict bert-large --device l4 --mode prefill --batch-size 8", 3.0, 1.5),
    ("memory gpt2-large --device h100-sxm --batch-size 4 --sequence-length 1024", 3.0, 1.5),
    ("predict llama3-70b --cluster dgx-h100:64 --plan tp=8,pp=4,zero=1 --batch-size 128", None, 1.5),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}; medians in seconds")
    print(f"{'nothing kept':>22} {'kept':>15}")
    print("   wall     cpu  limit    wall     cpu  limit")
    rows, goals = [], []
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "PERFCAST_CACHE": f"{folder}/cache"}
        for command, first_limit, kept_limit in CASES:
            measure(command, environment, 1)  # byte code is compiled, a capture is kept
            first = measure(command, environment | {"PERFCAST_CACHE": "off"}, options.repeats)
            kept = measure(command, environment, options.repeats)
            limit = "" if first_limit is None else f"{first_limit:.1f}"
            print(f"{first[0]:7.2f} {first[1]:7.2f} {limit:>6} ", end="")
            print(f"{kept[0]:7.2f} {kept[1]:7.2f} {kept_limit:6.1f}  {command}")
            goals.append(Row(f"{command} (kept)", kept[2], "s", kept_limit, source="stated here"))
            if first_limit is not None:
                goals.append(Row(f"{command} (first)", first[2], "s", first_limit, source="stated here"))
            rows.append({"command": command, "nothing_kept": first, "kept": kept})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return report(goals)


def measure(command: str, environment: dict[str, str], repeats: int) -> tuple[float, float, float]:
    """Median wall and processor seconds of a command line, and the least wall seconds."""
    wall, processor = [], []
    for _ in range(repeats):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "perfcast", *command.split()],
            check=True,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        wall.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(wall), statistics.median(processor), min(wall)


if __name__ == "__main__":
    sys.exit(main())
