"""Coverage of published training steps: plans over many devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.published.cases import TABLE, read_published_cases
from perfcast.evidence.validate.published.training import forecast_training
from perfcast.evidence.validate.sampling import sample
from perfcast.evidence.validate.summary import Scores


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    files = find_tables(places, (TABLE,))
    if not files:
        return ()
    cases = sample(read_published_cases(files), max_rows, lambda case: f"{TABLE}:{case.row}")
    result = forecast_training(cases, ("closed_form",), ("each",), say, lambda items, words: items)
    frameworks = np.array([row.framework or "" for row in result.rows], dtype=object)
    return [
        replace(
            part,
            labels={
                "device": part.labels["device"],
                "kind": part.labels["interval"],
                "framework": frameworks,
                "scale": part.labels["devices"],
                "split": part.labels["source"],
            },
        )
        for part in result.scores
    ]


TRAINING_STEPS = Subject(
    "training steps",
    "constants of the step and widths of the interval from the runs of all other sources",
    _score,
)
