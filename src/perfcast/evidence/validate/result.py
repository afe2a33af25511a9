"""What a suite found: columns or rows inside, the JSON of the contract where it is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TextIO

import numpy as np

from perfcast.core.arrays import Objects
from perfcast.evidence.validate.kernels.cases import Cases
from perfcast.evidence.validate.kernels.pricers import Prices
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.summary import Scores, score_rows, summarize

_ROW_GROUPS = ("all", "device", "operation", "source", "mode", "size")


class Result(Protocol):
    """What every suite returns: rows, a protocol in words, and error tables."""

    @property
    def suite(self) -> str:
        """As asked for on the command line."""
        ...

    @property
    def protocol(self) -> Mapping[str, Any]:
        """What predictors were fitted on, what was left out, and the sampling, in words."""
        ...

    @property
    def summary(self) -> Sequence[Mapping[str, Any]]:
        """Errors by predictor and group."""
        ...

    def to_json_rows(self) -> Iterator[dict[str, Any]]:
        """Rows as the JSON has them, made one by one."""
        ...


def write_result(result: Result, file: TextIO, head: Mapping[str, object] | None = None) -> None:
    """Stream the JSON, a row a line.

    Args:
        head: What stands before the suite: versions, and where the result comes from.
    """
    first = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in (head or {}).items())
    file.write(
        f'{{{first}"suite": {json.dumps(result.suite)},\n"protocol": {json.dumps(dict(result.protocol))},\n'
    )
    file.write('"rows": [')
    for index, row in enumerate(result.to_json_rows()):
        file.write(",\n" if index else "\n")
        file.write(json.dumps(row, allow_nan=False))
    file.write(f'\n],\n"summary": {json.dumps(result.summary, allow_nan=False)}}}\n')


@dataclass(frozen=True)
class SuiteResult:
    """Rows of a suite whose cases are run one by one."""

    suite: str
    protocol: Mapping[str, Any]
    rows: tuple[Row, ...]

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """Errors over all rows, by device, by operation, by mode and by size, for each predictor."""
        return summarize(score_rows(self.rows), _ROW_GROUPS)

    def to_json_rows(self) -> Iterator[dict[str, Any]]:
        """Rows as the JSON has them."""
        return (row.to_json() for row in self.rows)


@dataclass(frozen=True, eq=False)
class PricedCases:
    """Cases and what each predictor says of them.

    Attributes:
        prices: By predictor; aligned with the cases.
        labels: More to group by; aligned.
    """

    cases: Cases
    prices: Mapping[str, Prices]
    quality: Objects
    labels: Mapping[str, Objects]

    def scores(self) -> list[Scores]:
        """Columns for the summary."""
        cases = self.cases
        sound = "" if cases.kernels is None else "sound"
        labels = {
            "device": cases.device,
            "operation": cases.operation,
            "dtype": cases.dtype,
            "framework": cases.framework,
            "source": np.full(len(cases), cases.table, dtype=object),
            "quality": np.where(self.quality == "", sound, self.quality).astype(object),
            **self.labels,
        }
        return [
            Scores(
                predictor=name,
                labels={**labels, "provenance": prices.provenance, "skipped": prices.reason},
                predicted=prices.seconds,
                low=prices.low,
                high=prices.high,
                measured=cases.seconds,
                skipped=prices.reason != "",
            )
            for name, prices in self.prices.items()
        ]

    def rows(self, suite: str) -> Iterator[Row]:
        """One row per case and predictor, predictors side by side."""
        cases, labels = self.cases, self.cases.labels
        columns, quality = cases.columns.to_dicts(), self.quality.tolist()
        answers = {name: _Answers(prices) for name, prices in self.prices.items()}
        for i in range(len(cases)):
            configuration = {key: _plain(value) for key, value in columns[i].items()}
            if quality[i]:
                configuration["quality"] = quality[i]
            for name, answer in answers.items():
                yield Row(
                    suite=suite,
                    table=cases.table,
                    row=labels[i],
                    device=cases.device[i],
                    catalog_device=cases.catalog_device[i] or None,
                    operation=cases.operation[i] or None,
                    dtype=cases.dtype[i] or None,
                    framework=cases.framework[i] or None,
                    predictor=name,
                    columns=configuration,
                    measured_seconds=_plain(float(cases.seconds[i])),
                    **answer.of(i),
                )


class _Answers:
    """Prices as plain lists, faster to read one by one."""

    def __init__(self, prices: Prices) -> None:
        self._seconds, self._low, self._high = (a.tolist() for a in (prices.seconds, prices.low, prices.high))
        self._provenance, self._reason = prices.provenance.tolist(), prices.reason.tolist()

    def of(self, i: int) -> dict[str, Any]:
        if self._reason[i]:
            return {"skipped": self._reason[i]}
        return {
            "predicted_seconds": self._seconds[i],
            "predicted_seconds_low": _plain(self._low[i]),
            "predicted_seconds_high": _plain(self._high[i]),
            "provenance": self._provenance[i] or None,
        }


def _plain(value: Any) -> Any:
    """JSON knows no NaN and no infinity: nothing was stated."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


@dataclass(frozen=True, eq=False)
class TableResult:
    """Everything that one suite over tables found out.

    Attributes:
        groups: Of the summary, see ``summary.summarize``.
        more_rows: Rows that come from elsewhere than tables of kernels, with their ``more_scores``.
        more_summary: Entries beside the groups.
    """

    suite: str
    protocol: Mapping[str, Any]
    priced: tuple[PricedCases, ...]
    groups: tuple[str, ...]
    more_rows: tuple[Row, ...] = ()
    more_scores: tuple[Scores, ...] = ()
    more_summary: tuple[Mapping[str, Any], ...] = ()

    def rows(self) -> Iterator[Row]:
        """All rows, made one by one."""
        for part in self.priced:
            yield from part.rows(self.suite)
        yield from self.more_rows

    def to_json_rows(self) -> Iterator[dict[str, Any]]:
        """Rows as the JSON has them, made one by one."""
        return (row.to_json() for row in self.rows())

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """Errors by predictor and group."""
        scores = [score for part in self.priced for score in part.scores()]
        entries = summarize([*scores, *self.more_scores], self.groups)
        return [*entries, *map(dict, self.more_summary)]
