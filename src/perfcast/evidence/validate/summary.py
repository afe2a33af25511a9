"""Error tables over millions of rows, in columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.evidence.dataset.words import encode

_FIGURES = (
    "mean_absolute_relative_error", "median_absolute_relative_error", "p90_absolute_relative_error",
    "mean_relative_error", "coverage",
)  # fmt: skip


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


def summarize(scores: Sequence[Scores], groups: Sequence[str]) -> list[dict[str, Any]]:
    """One entry per predictor and value of a group.

    Args:
        groups: 'all', a label, 'size' (decade of the measured time), or several by ', '.
    """
    by_predictor: defaultdict[str, list[Scores]] = defaultdict(list)
    for part in scores:
        by_predictor[part.predictor].append(part)
    joined = {name: _Joined(parts) for name, parts in by_predictor.items()}
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
        errors, covered = self._errors[rows], self._covered[rows]
        errors, covered = errors[np.isfinite(errors)], covered[np.isfinite(covered)]
        counts = {"n": len(errors), "skipped": int(self._skipped[rows].sum())}
        if not len(errors):
            return {**counts, **dict.fromkeys(_FIGURES)}
        size = np.abs(errors)
        figures = [size.mean(), np.median(size), np.quantile(size, 0.9), errors.mean()]
        coverage = float(covered.mean()) if len(covered) else None
        return {**counts, **dict(zip(_FIGURES, [*map(float, figures), coverage], strict=True))}


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
