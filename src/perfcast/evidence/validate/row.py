"""A row of a validation suite: one case by one predictor.

A row is written as a plain dictionary with the keys of ``Row`` and the suite's own configuration columns:
that is what the JSON carries. Nothing is dropped in silence: a row without a forecast says why.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Why a row may have no forecast; 'incomplete' is followed by a column.
SKIP_REASONS = (
    "unsupported operation",
    "unsupported plan",
    "unknown device",
    "no trained predictor",
    "impossible value",
)
_INCOMPLETE = re.compile(r"incomplete: \S.*")


def is_skip_reason(reason: str) -> bool:
    """Whether a reason is of the fixed list."""
    return reason in SKIP_REASONS or _INCOMPLETE.fullmatch(reason) is not None


def weakest_provenance(names: Container[str]) -> str | None:
    """The least sure of what some prices rest on; None without any that is known."""
    weakest_first = ("bounded", "extrapolated", "interpolated", "measured")
    return next((name for name in weakest_first if name in names), None)


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
        data |= {
            "predictor": self.predictor,
            "predicted_seconds": self.predicted_seconds,
            "predicted_seconds_low": self.predicted_seconds_low,
            "predicted_seconds_high": self.predicted_seconds_high,
            "measured_seconds": self.measured_seconds,
            "relative_error": self.relative_error,
        }
        data["provenance"], data["skipped"] = self.provenance, self.skipped
        return data

    @property
    def relative_error(self) -> float | None:
        """(predicted - measured) / measured."""
        if self.predicted_seconds is None or not self.measured_seconds:
            return None
        return self.predicted_seconds / self.measured_seconds - 1.0
