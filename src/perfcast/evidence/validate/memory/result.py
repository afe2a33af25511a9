"""What the memory suite found: a row for each measurement and predictor, and error tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.memory.forecast import MemoryForecast
from perfcast.evidence.validate.summary import Scores, by_predictor, score_figures, summarize
from perfcast.units import GIB

SUITE = "memory"
#: Metrics that are a run's peak; the others are parts of it.
PEAKS = ("allocated", "reserved")
_METRIC_GROUPS = (
    "metric",
    "metric, source",
    "metric, table",
    "metric, device",
    "metric, devices",
    "source, skipped",
)


@dataclass(frozen=True)
class MemoryRow:
    """One measurement by one predictor."""

    case: MemoryCase
    predictor: str
    forecast: MemoryForecast
    expands: bool = True

    @property
    def skipped(self) -> str | None:
        """Why there is no forecast."""
        return self.case.skipped or self.forecast.skipped

    @property
    def relative_error(self) -> float | None:
        """(predicted - measured) / measured."""
        predicted, measured = self.forecast.num_bytes, self.case.measured_bytes
        return predicted / measured - 1.0 if predicted is not None and measured else None

    def to_json(self) -> dict[str, Any]:
        """The contract's keys first, then the configuration."""
        case, forecast, run = self.case, self.forecast, self.case.run
        data: dict[str, Any] = {
            "suite": SUITE,
            "table": case.table,
            "row": case.label if self.expands else case.row,
            "device": case.device,
            "catalog_device": case.catalog_device,
            "operation": "peak",
            "collection": case.source,
            "metric": case.metric,
            "measured_stage": case.measured_stage,
            "measured_by": case.measured_by,
        }
        if run is not None:
            data |= {"dtype": run.training.dtype, "framework": run.training.framework}
        data |= {key: value for key, value in case.configuration.items() if key not in data}
        data |= {
            "predictor": self.predictor,
            "predicted_bytes": forecast.num_bytes,
            "predicted_bytes_low": forecast.low,
            "predicted_bytes_high": forecast.high,
            "measured_bytes": case.measured_bytes,
            "relative_error": self.relative_error,
        }
        if case.metric == "outcome":
            data |= {
                "capacity_bytes": case.capacity_bytes,
                "predicted_fits": forecast.fits,
                "measured_fits": case.measured_fits,
                "contradicted_by": case.contradicted_by,
            }
        data["assumptions"] = [*(run.assumptions if run else ()), *forecast.assumptions]
        data["duplicate_of"], data["skipped"] = case.duplicate_of, self.skipped
        return data


@dataclass(frozen=True, eq=False)
class MemoryResult:
    """All rows, in the order of the tables, predictors side by side."""

    protocol: Mapping[str, Any]
    rows: tuple[MemoryRow, ...]
    suite: str = SUITE

    def to_json_rows(self) -> Iterator[dict[str, Any]]:
        """Rows as the JSON has them, made one by one."""
        return (row.to_json() for row in self.rows)

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """Errors by predictor and group; outcomes as shares that were called right."""
        counted = [row for row in self.rows if row.case.duplicate_of is None]
        numbers = [row for row in counted if row.case.metric != "outcome"]
        peaks = [row for row in numbers if row.case.metric in PEAKS]
        entries = summarize(_scores(peaks), ("all", "device", "operation", "source"))
        entries += [{**e, "group": "size"} for e in summarize(_scores(peaks), ("gib",))]
        entries += summarize(_scores(numbers), _METRIC_GROUPS)
        entries += summarize(_scores(self.rows), ("skipped",))
        return entries + _outcomes(counted)


# ---- error tables ------------------------------------------------------------------------------------


def _scores(rows: Sequence[MemoryRow]) -> list[Scores]:
    """Columns for the summary, by predictor."""
    return [
        score_figures(
            name,
            [
                (row.forecast.num_bytes, row.forecast.low, row.forecast.high, row.case.measured_bytes)
                for row in mine
            ],
            {
                "device": [row.case.device for row in mine],
                "operation": ["peak"] * len(mine),
                "source": [row.case.source for row in mine],
                "table": [row.case.table for row in mine],
                "metric": [row.case.metric for row in mine],
                "devices": [_devices(row) for row in mine],
                "gib": [_size(row) for row in mine],
                "skipped": [row.skipped or "" for row in mine],
            },
            (row.skipped is not None for row in mine),
        )
        for name, mine in by_predictor(rows).items()
    ]


def _devices(row: MemoryRow) -> str:
    """'8 devices'; '' where not stated."""
    count = row.case.num_devices
    return "" if count is None else "1 device" if count == 1 else f"{count} devices"


def _size(row: MemoryRow) -> str:
    """Twofold ranges of the measured bytes: '16 to 32 GiB'."""
    measured = row.case.measured_bytes
    if not measured:
        return ""
    exponent = int(np.floor(np.log2(measured / GIB)))
    return f"{2.0**exponent:g} to {2.0 ** (exponent + 1):g} GiB"


# ---- outcomes ----------------------------------------------------------------------------------------

_KINDS: Mapping[str, Callable[[MemoryCase], bool]] = {
    "fitted": lambda case: case.measured_fits is True,
    "failed": lambda case: case.measured_fits is False and case.contradicted_by is None,
    "failed, with contradicted": lambda case: case.measured_fits is False,
}


def _outcomes(rows: Sequence[MemoryRow]) -> list[dict[str, Any]]:
    """Of runs that fitted and of runs that failed the share that was called so; all and by source."""
    mine = [row for row in rows if row.case.metric == "outcome"]
    names = dict.fromkeys(row.predictor for row in mine)
    sources = dict.fromkeys(row.case.source for row in mine)
    entries = []
    for name in names:
        for source in (None, *sources):
            for kind, belongs in _KINDS.items():
                chosen = [
                    row
                    for row in mine
                    if row.predictor == name and belongs(row.case) and source in (None, row.case.source)
                ]
                if chosen:
                    group, value = (
                        ("outcome", kind) if source is None else ("outcome, source", f"{kind}, {source}")
                    )
                    entries.append({"predictor": name, "group": group, "value": value, **_share(chosen)})
    return entries


def _share(rows: Sequence[MemoryRow]) -> dict[str, Any]:
    judged = [row for row in rows if row.skipped is None]
    right = sum(row.forecast.fits == row.case.measured_fits for row in judged)
    return {
        "n": len(judged),
        "skipped": len(rows) - len(judged),
        "share_called_right": right / len(judged) if judged else None,
    }
