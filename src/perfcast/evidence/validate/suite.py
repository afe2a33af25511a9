"""What every validation suite returns: rows, a protocol in words, and error tables.

A row is a plain dictionary with the keys of ``Row`` and the suite's own configuration columns, since that
is what the JSON carries. Nothing is dropped in silence: a row without a forecast says why.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO, TypeVar

import numpy as np

Item = TypeVar("Item")

DEFAULT_MAX_ROWS = 100_000

#: Why a row may have no forecast; 'incomplete' is followed by a column.
SKIP_REASONS = (
    "unsupported operation", "unsupported plan", "unknown device", "no trained predictor", "impossible value",
)  # fmt: skip
_INCOMPLETE = re.compile(r"incomplete: \S.*")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case by one predictor.

    Attributes:
        table, row: Where the case comes from: file stem and 0-based line, or a name of its own.
        columns: Configuration, verbatim.
        predicted_seconds_low, predicted_seconds_high: 90 % interval.
        skipped: None, or a reason of the fixed list.
    """

    suite: str
    table: str
    row: int | str
    device: str
    catalog_device: str | None
    predictor: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    operation: str | None = None
    dtype: str | None = None
    framework: str | None = None
    mode: str | None = None
    predicted_seconds: float | None = None
    predicted_seconds_low: float | None = None
    predicted_seconds_high: float | None = None
    measured_seconds: float | None = None
    provenance: str | None = None
    skipped: str | None = None

    def __post_init__(self) -> None:
        if self.skipped is not None and not is_skip_reason(self.skipped):
            raise ValueError(f"'{self.skipped}' is not a reason to skip a row; see SKIP_REASONS")

    def to_json(self) -> dict[str, Any]:
        """Fixed keys first, then the configuration; the signed relative error where there is one."""
        data: dict[str, Any] = {"suite": self.suite, "table": self.table, "row": self.row}
        data |= {"device": self.device, "catalog_device": self.catalog_device}
        for name in ("operation", "dtype", "framework", "mode"):
            if getattr(self, name) is not None:
                data[name] = getattr(self, name)
        data |= {key: value for key, value in self.columns.items() if key not in data}
        for name in ("predictor", "predicted_seconds", "predicted_seconds_low", "predicted_seconds_high",
                     "measured_seconds"):  # fmt: skip
            data[name] = getattr(self, name)
        data["relative_error"] = self.relative_error
        data["provenance"], data["skipped"] = self.provenance, self.skipped
        return data

    @property
    def relative_error(self) -> float | None:
        """(predicted - measured) / measured."""
        if self.predicted_seconds is None or not self.measured_seconds:
            return None
        return self.predicted_seconds / self.measured_seconds - 1.0


def is_skip_reason(reason: str) -> bool:
    """Whether a reason is of the fixed list."""
    return reason in SKIP_REASONS or _INCOMPLETE.fullmatch(reason) is not None


@dataclass(frozen=True)
class SuiteResult:
    """Everything that one suite found out."""

    suite: str
    protocol: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def summary(self) -> list[dict[str, Any]]:
        """Errors over all rows, by device, by operation, by mode and by size, for each predictor."""
        return summarize(self.rows)

    def to_json(self) -> dict[str, Any]:
        """The contract of the suites."""
        rows = [row.to_json() for row in self.rows]
        return {"suite": self.suite, "protocol": dict(self.protocol), "rows": rows, "summary": self.summary}

    def write(self, file: TextIO) -> None:
        """Stream the JSON, a row a line."""
        file.write(
            f'{{"suite": {json.dumps(self.suite)},\n"protocol": {json.dumps(dict(self.protocol))},\n"rows": ['
        )
        for index, row in enumerate(self.rows):
            file.write(",\n" if index else "\n")
            file.write(json.dumps(row.to_json(), allow_nan=False))
        file.write(f'\n],\n"summary": {json.dumps(self.summary, allow_nan=False)}}}\n')


# ---- error tables ------------------------------------------------------------------------------

_GROUPS: dict[str, Callable[[Row], str | None]] = {
    "all": lambda row: "all",
    "device": lambda row: row.device,
    "operation": lambda row: row.operation,
    "source": lambda row: row.table,
    "mode": lambda row: row.mode,
    "size": lambda row: _decade(row.measured_seconds),
}


def summarize(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One entry per predictor and group, in the order in which they first appear."""
    entries = []
    for group, key in _GROUPS.items():
        members: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in rows:
            value = key(row)
            if value is not None:
                members[row.predictor, value].append(row)
        for (predictor, value), mine in members.items():
            entries.append({"predictor": predictor, "group": group, "value": value, **error_summary(mine)})
    return entries


def error_summary(rows: Sequence[Row]) -> dict[str, Any]:
    """n, skipped; mean, median, 90th percentile of |relative error|; signed mean; interval coverage."""
    judged = [row for row in rows if row.skipped is None and row.relative_error is not None]
    skipped = sum(row.skipped is not None for row in rows)
    names = ("mean_absolute_relative_error", "median_absolute_relative_error", "p90_absolute_relative_error",
             "mean_relative_error", "coverage")  # fmt: skip
    if not judged:
        return {"n": 0, "skipped": skipped, **dict.fromkeys(names)}
    errors = np.array([row.relative_error for row in judged], dtype=np.float64)
    size = np.abs(errors)
    within = [_is_covered(row) for row in judged if row.predicted_seconds_low is not None]
    figures = (size.mean(), np.median(size), np.quantile(size, 0.9), errors.mean())
    values = [*(float(v) for v in figures), sum(within) / len(within) if within else None]
    return {"n": len(judged), "skipped": skipped, **dict(zip(names, values, strict=True))}


def _is_covered(row: Row) -> bool:
    low, high, measured = row.predicted_seconds_low, row.predicted_seconds_high, row.measured_seconds
    return low is not None and high is not None and measured is not None and low <= measured <= high


def _decade(seconds: float | None) -> str | None:
    """'1e-2 s' holds 10 ms to 100 ms."""
    return f"1e{math.floor(math.log10(seconds))} s" if seconds else None


# ---- sampling ----------------------------------------------------------------------------------


def sample(
    items: Iterable[Item],
    max_rows: int,
    name_of: Callable[[Item], str],
    stratum_of: Callable[[Item], Any] = lambda item: None,
) -> list[Item]:
    """At most ``max_rows`` items, evenly over strata, by a fixed hash of their names; order is kept.

    The smaller strata are taken whole, and what they leave goes to the larger ones.
    """
    everything = list(items)
    if len(everything) <= max_rows:
        return everything
    strata: defaultdict[Any, list[int]] = defaultdict(list)
    for index, item in enumerate(everything):
        strata[stratum_of(item)].append(index)
    chosen: list[int] = []
    left = sorted(strata.values(), key=len)
    for position, members in enumerate(left):
        share = (max_rows - len(chosen)) // (len(left) - position)
        ranked = sorted(members, key=lambda i: hashlib.sha256(name_of(everything[i]).encode()).digest())
        chosen.extend(ranked[:share])
    return [everything[i] for i in sorted(chosen)]
