"""Every benchmark that needs neither a GPU nor data of others, in one table against the stated goals.

``make bench``, or ``python benchmarks/every.py [--only NAME,NAME] [--json out/bench.json] [--timeout 1200]``.
Each runs in a process of its own, one after the other, so that none disturbs another; what else the machine
does stretches wall seconds, not those of the processor. A benchmark that fails, prints no rows or takes too
long is a row that says so. Ctrl-C ends the run: the table and the file hold what is finished, and which
benchmarks are not. Exit code 0 where all ran and every goal is met, else 1; 130 behind Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goals import VARIABLE, Row

FOLDER = Path(__file__).parent
#: Exit code behind Ctrl-C, as shells have it.
_ENDED = 130
#: In the order in which they run: the quick ones first.
BENCHMARKS = (
    "allocator", "footprint", "collectives", "learned_pricing", "serving", "simulation", "plan_step",
    "accumulation", "network", "capture", "search", "calculon", "cold_start",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One benchmark's.

    Attributes:
        failure: Why there are no rows, or not all; '' where it ran.
    """

    benchmark: str
    rows: tuple[Row, ...]
    seconds: float
    failure: str = ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAMES", help="of benchmarks, separated by commas")
    parser.add_argument("--json", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds of one benchmark")
    options = parser.parse_args(arguments)
    names = [name for name in options.only.split(",") if name] or list(BENCHMARKS)
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {', '.join(unknown)}; known: {', '.join(BENCHMARKS)}")
    outcomes: list[Outcome] = []
    was_ended = False
    try:
        for name in names:
            print(f"\n== benchmarks/{name}.py", flush=True)
            outcomes.append(run(FOLDER / f"{name}.py", options.timeout))
    except KeyboardInterrupt:
        was_ended = True
        outcomes += [Outcome(name, (), 0.0, "ended by Ctrl-C") for name in names[len(outcomes) :]]
    print("\n" + "\n".join(table(outcomes)))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(data_of(outcomes), indent=1) + "\n")
    print(f"wrote {options.json}")
    return _ENDED if was_ended else int(not all(is_well(outcome) for outcome in outcomes))


def run(script: Path, timeout: float) -> Outcome:
    """One benchmark in a process of its own; what it prints is shown as it comes."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        environment = os.environ | {VARIABLE: str(path)}
        try:
            code = subprocess.run([sys.executable, str(script)], env=environment, timeout=timeout).returncode
            failure = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            failure = f"stopped after {timeout:g} s"
        lines = path.read_text().splitlines() if path.exists() else []
    rows: tuple[Row, ...] = ()
    try:
        rows = tuple(Row(**json.loads(line)) for line in lines)
    except (ValueError, TypeError):
        failure = failure or "told rows that are none"
    if not rows and not failure:
        failure = "told no rows"
    return Outcome(script.stem, rows, time.perf_counter() - began, failure)


def is_well(outcome: Outcome) -> bool:
    """Whether it ran and missed no goal."""
    return not outcome.failure and not any(row.is_met is False for row in outcome.rows)


def table(outcomes: list[Outcome]) -> list[str]:
    """All rows, and how many goals are met."""
    cells = [("", "measured", "goal", "met", "source")]
    for outcome in outcomes:
        if outcome.failure:
            cells.append((f"{outcome.benchmark}: {outcome.failure}", "–", "", "FAILED", ""))
        for row in outcome.rows:
            goal = "" if row.goal is None else f"{row.sense} {row.goal:,.6g}"
            met = {None: "", True: "yes", False: "NO"}[row.is_met]
            measured = f"{row.value:,.4g} {row.unit}".strip()
            cells.append((f"{outcome.benchmark}: {row.name}", measured, goal, met, row.source))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        f"{one:{widths[0]}}  {two:>{widths[1]}}  {three:>{widths[2]}}  {four:{widths[3]}}  {five}".rstrip()
        for one, two, three, four, five in cells
    ]
    judged = [row.is_met for outcome in outcomes for row in outcome.rows if row.is_met is not None]
    failed = sum(bool(outcome.failure) for outcome in outcomes)
    lines.append(f"{sum(judged)} of {len(judged)} goals met; {failed} of {len(outcomes)} benchmarks failed")
    return lines


def data_of(outcomes: list[Outcome]) -> dict[str, Any]:
    """What the file holds."""
    return {
        "schema_version": "1",
        "machine": platform.processor() or platform.machine(),
        "num_cores": os.cpu_count(),
        "python": platform.python_version(),
        "benchmarks": [
            {
                "name": outcome.benchmark,
                "seconds": outcome.seconds,
                "failure": outcome.failure,
                "rows": [vars(row) | {"is_met": row.is_met} for row in outcome.rows],
            }
            for outcome in outcomes
        ],
    }


if __name__ == "__main__":
    raise SystemExit(main())
