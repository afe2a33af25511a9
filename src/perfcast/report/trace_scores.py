"""Errors of forecasts from recordings, model by model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.evidence.validate.row import Row
    from perfcast.evidence.validate.traces.suite import TraceScore


def print_trace_scores(rows: Sequence[Row], scores: Sequence[TraceScore], console: Console) -> None:
    """A line for each model and predictor, its errors by multiple of the recorded batch, and the means."""
    factors = sorted({float(row.columns["factor"]) for row in rows})
    table = Table("model", "forecast from", *(f"× {factor:g}" for factor in factors), "geometric", "mean")
    for column in table.columns[2:]:
        column.justify = "right"
    for score in sorted(scores, key=lambda s: (s.model == "all", s.model, s.predictor)):
        errors = dict(score.errors)
        cells = (f"{100 * errors[factor]:+.1f} %" if factor in errors else "" for factor in factors)
        table.add_row(
            score.model, score.predictor, *cells, f"{100 * score.gmae:.2f} %", f"{100 * score.mape:.2f} %"
        )
    console.print(table)
    console.print("errors of the step; geometric: exp(mean ln(|error| + 0.0004))")
