"""Measured against predicted, in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from perfcast.report.text import print_validation
from perfcast.units import format_seconds


def print_row(row: Mapping[str, Any], console: Console) -> None:
    """One row of a suite as it is done: what, predicted, measured, signed error."""
    what = f"{row['row']} · {row['predictor']}"
    if row["skipped"]:
        console.print(f"{what:32} skipped: {row['skipped']}", markup=False)
        return
    low, high = (format_seconds(row[f"predicted_seconds_{end}"]) for end in ("low", "high"))
    console.print(
        f"{what:32} predicted {format_seconds(row['predicted_seconds']):>8} ({low} – {high})  "
        f"measured {format_seconds(row['measured_seconds']):>8}  {row['relative_error']:+.1%}",
        markup=False,
        soft_wrap=True,
    )


def print_summary(summary: Sequence[Mapping[str, Any]], console: Console) -> None:
    """The summary of a suite, one line per predictor and group."""
    rows = [
        {
            "predictor": entry["predictor"],
            "group": f"{entry['group']} {entry['value']}" if entry["group"] != "all" else "all",
            "n": entry["n"],
            "skipped": entry["skipped"],
            "mean": entry["mean_absolute_relative_error"],
            "median": entry["median_absolute_relative_error"],
            "p90": entry["p90_absolute_relative_error"],
            "signed_mean": entry["mean_relative_error"],
            "coverage": entry["coverage"],
        }
        for entry in summary
        if entry["group"] in ("all", "mode")
    ]
    print_validation(rows, console)
