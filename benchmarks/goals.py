"""What a benchmark measured, beside what is aimed at: the form in which all of them tell ``every.py``.

A benchmark prints its own table, ends with ``return report(rows)``, and exits with 0 whenever it ran: whether
a goal was missed is said by its rows. ``every.py`` (``make bench``) runs them and judges.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

#: Names the file to which rows are appended, one JSON object a line.
VARIABLE = "PERFCAST_BENCH_ROWS"
Sense = Literal["at most", "at least"]


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        name: What was measured; unique within its benchmark.
        unit: Of value and goal: 's' is wall seconds, 'CPU s' seconds of the processor.
        goal: None where none is stated.
        sense: On which side of the goal the value is to be.
        source: Who states the goal, or what it follows from.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    sense: Sense = "at most"
    source: str = ""

    @property
    def is_met(self) -> bool | None:
        """None without a goal; nothing meets a goal by not being a number."""
        if self.goal is None:
            return None
        return self.value <= self.goal if self.sense == "at most" else self.value >= self.goal


def report(rows: list[Row]) -> int:
    """Hand rows over to ``every.py``, if that runs the benchmark; the exit code of one that ran."""
    path = os.environ.get(VARIABLE)
    if path:
        with Path(path).open("a") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
    else:
        for row in rows:
            if row.is_met is False:
                print(f"missed: {row.name}: {row.value:.4g} {row.unit}, {row.sense} {row.goal:g}")
    return 0
