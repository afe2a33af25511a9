"""Coverage of peak memory: what training runs allocated and reserved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.memory.result import MemoryRow, score_memory_rows
from perfcast.evidence.validate.memory.rows import TABLES
from perfcast.evidence.validate.memory.suite import load_predictors, validate_memory
from perfcast.evidence.validate.summary import Scores


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    files = find_tables(places, TABLES)
    if not files:
        return ()
    result = validate_memory(files, load_predictors(), max_rows=max_rows, say=say)
    rows = [row for row in result.rows if row.case.duplicate_of is None and row.case.metric != "outcome"]
    return [
        replace(
            part,
            labels={
                "device": part.labels["device"],
                "kind": part.labels["metric"],
                "framework": np.array([_framework(row) for row in rows], dtype=object),
                "scale": part.labels["devices"],
                "split": part.labels["source"],
            },
        )
        for part in score_memory_rows(rows)
    ]


def _framework(row: MemoryRow) -> str:
    return row.case.run.training.framework if row.case.run else ""


PEAK_MEMORY = Subject(
    "peak memory",
    "the shipped widths",
    _score,
)
