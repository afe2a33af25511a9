"""Error tables over millions of rows, in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.evidence.dataset.words import encode
from perfcast.evidence.validate.row import Row

#: Predicted, low and high end of its interval, measured; None where there is no value.
Figures = tuple[float | None, float | None, float | None, float | None]


class _Predicted(Protocol):
    @property
    def predictor(self) -> str: ...


Predicted = TypeVar("Predicted", bound=_Predicted)


@dataclass(frozen=True, eq=False)
class Scores:
    """n rows of one predictor; arrays of shape [n], NaN where there is no value.

    Attributes:
        labels: What rows are grouped by; '' is in no group.
    """

    predictor: str
    labels: Mapping[str, Objects]
    predicted: Floats
    low: Floats
    high: Floats
    measured: Floats
    skipped: Flags

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def errors(self) -> Floats:
        """(predicted - measured) / measured; NaN for rows that are not judged."""
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = self.predicted / self.measured - 1.0
        return np.where(self.skipped | ~(self.measured > 0), np.nan, errors)

    @property
    def covered(self) -> Floats:
        """1 where the measurement lies in the interval, 0 where not, NaN without an interval."""
        inside = (self.low <= self.measured) & (self.measured <= self.high)
        return np.where(np.isfinite(self.low) & np.isfinite(self.errors), inside.astype(np.float64), np.nan)


def by_predictor(rows: Iterable[Predicted]) -> dict[str, list[Predicted]]:
    """Rows of each predictor, in the order in which predictors first appear."""
    found: dict[str, list[Predicted]] = {}
    for row in rows:
        found.setdefault(row.predictor, []).append(row)
    return found


def score_figures(
    predictor: str, figures: Sequence[Figures], labels: Mapping[str, Iterable[str]], skipped: Iterable[bool]
) -> Scores:
    """One predictor's figures in columns; labels and ``skipped`` are aligned with them."""
    values = [[np.nan if value is None else value for value in row] for row in figures]
    predicted, low, high, measured = np.array(values, dtype=np.float64).reshape(-1, 4).T
    return Scores(
        predictor=predictor,
        labels={name: np.array(list(words), dtype=object) for name, words in labels.items()},
        predicted=predicted,
        low=low,
        high=high,
        measured=measured,
        skipped=np.array(list(skipped), dtype=np.bool_),
    )


def score_rows(
    rows: Iterable[Row], more_labels: Callable[[Sequence[Row]], Mapping[str, Iterable[str]]] | None = None
) -> list[Scores]:
    """Rows of the contract in columns, by predictor, with what they state themselves as labels.

    Args:
        more_labels: Further labels of one predictor's rows, aligned with them.
    """
    return [
        score_figures(
            predictor,
            [
                (r.predicted_seconds, r.predicted_seconds_low, r.predicted_seconds_high, r.measured_seconds)
                for r in mine
            ],
            {**_own_labels(mine), **(more_labels(mine) if more_labels else {})},
            (row.skipped is not None for row in mine),
        )
        for predictor, mine in by_predictor(rows).items()
    ]


def _own_labels(rows: Sequence[Row]) -> dict[str, list[str]]:
    return {
        "device": [row.device for row in rows],
        "operation": [row.operation or "" for row in rows],
        "source": [row.table for row in rows],
        "dtype": [row.dtype or "" for row in rows],
        "framework": [row.framework or "" for row in rows],
        "mode": [row.mode or "" for row in rows],
        "provenance": [row.provenance or "" for row in rows],
        "skipped": [row.skipped or "" for row in rows],
    }


def summarize(scores: Sequence[Scores], groups: Sequence[str]) -> list[dict[str, Any]]:
    """One entry per predictor and value of a group.

    Args:
        groups: 'all', a label, 'size' (decade of the measured time), or several by ', '.
    """
    joined = {name: _Joined(parts) for name, parts in by_predictor(scores).items()}
    return [
        {"predictor": name, "group": group, "value": value, **figures}
        for group in groups
        for name, rows in joined.items()
        for value, figures in rows.summarize(group)
    ]


class _Joined:
    """All rows of a predictor, one after the other."""

    def __init__(self, parts: Sequence[Scores]) -> None:
        self._parts = parts
        self._errors = np.concatenate([part.errors for part in parts])
        self._covered = np.concatenate([part.covered for part in parts])
        self._skipped = np.concatenate([part.skipped for part in parts])

    def summarize(self, group: str) -> list[tuple[str, dict[str, Any]]]:
        """Each value of the group, in alphabetical order, with its figures."""
        values, codes = encode(np.concatenate([_values(part, group) for part in self._parts]))
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(values) + 1))
        return [
            (value, self._figures(order[bounds[i] : bounds[i + 1]]))
            for i, value in enumerate(values)
            if value
        ]

    def _figures(self, rows: Integers) -> dict[str, Any]:
        return {
            "n": int(np.isfinite(self._errors[rows]).sum()),
            "skipped": int(self._skipped[rows].sum()),
            **describe_errors(self._errors[rows], self._covered[rows]),
        }


def describe_errors(errors: Floats, covered: Floats | None = None) -> dict[str, float | None]:
    """Mean, median and 90th percentile of the absolute errors, signed mean, and coverage of the interval.

    Args:
        errors: Relative, shape [n]; NaN for rows that are not judged.
        covered: 1 where the measurement lies in the interval, 0 where not, NaN without one; shape [n].
    """
    judged = errors[np.isfinite(errors)]
    size = np.abs(judged)
    known = None if covered is None else covered[np.isfinite(covered)]
    return {
        "mean_absolute_relative_error": float(size.mean()) if len(size) else None,
        "median_absolute_relative_error": float(np.median(size)) if len(size) else None,
        "p90_absolute_relative_error": float(np.quantile(size, 0.9)) if len(size) else None,
        "mean_relative_error": float(judged.mean()) if len(size) else None,
        "coverage": None if known is None or not len(known) else float(known.mean()),
    }


def _values(part: Scores, group: str) -> Objects:
    if group == "all":
        return np.full(len(part), "all", dtype=object)
    if group == "size":
        return _decades(part.measured)
    columns = [part.labels.get(name, np.full(len(part), "", dtype=object)) for name in group.split(", ")]
    if len(columns) == 1:
        return columns[0]
    present = np.all([column != "" for column in columns], axis=0)
    joined = columns[0]
    for column in columns[1:]:
        joined = joined + ", " + column
    return np.where(present, joined, "").astype(object)


def _decades(seconds: Floats) -> Objects:
    """'1e-2 s' holds 10 ms to 100 ms."""
    sound = seconds > 0
    decade = np.floor(np.log10(np.where(sound, seconds, 1.0))).astype(np.int64)
    names = np.array([f"1e{d} s" for d in range(-20, 20)], dtype=object)
    return np.where(sound, names[np.clip(decade + 20, 0, 39)], "").astype(object)
