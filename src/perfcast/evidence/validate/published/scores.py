"""Rows of the published tables in columns, to be summarised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from perfcast.core.forecast.plan import PlanForecast
from perfcast.evidence.validate.suite import Row
from perfcast.evidence.validate.summary import Scores


def scores_of(predictor: str, rows: Sequence[Row], labels: Mapping[str, Iterable[str]]) -> Scores:
    """One predictor's rows.

    Args:
        labels: What rows are grouped by, aligned with them; why a row was skipped is added.
    """
    return Scores(
        predictor=predictor,
        labels={
            **{name: _words(values) for name, values in labels.items()},
            "skipped": _words(row.skipped or "" for row in rows),
        },
        predicted=_numbers(row.predicted_seconds for row in rows),
        low=_numbers(row.predicted_seconds_low for row in rows),
        high=_numbers(row.predicted_seconds_high for row in rows),
        measured=_numbers(row.measured_seconds for row in rows),
        skipped=np.array([row.skipped is not None for row in rows], dtype=np.bool_),
    )


def main_provenance(step: PlanForecast) -> str | None:
    """What most of the step's compute rests on."""
    seconds = step.seconds_by_provenance
    return max(seconds, key=lambda name: seconds[name]) if seconds else None


def _numbers(values: Iterable[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _words(values: Iterable[str]) -> np.ndarray[Any, np.dtype[np.object_]]:
    return np.array(list(values), dtype=object)
