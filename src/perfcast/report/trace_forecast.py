"""A forecast from a recording: for a terminal, and as JSON by a published schema."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.report.tables import new_grid, plain, print_list, print_table, share, shares_table
from perfcast.traces.forecast.from_traces import TraceForecast
from perfcast.units import format_seconds
from perfcast.version import perfcast_version


def print_trace_forecast(forecast: TraceForecast, console: Console) -> None:
    """The forecast beside what was recorded."""
    console.print(Text(describe_trace_forecast(forecast), style="bold"))
    grid = new_grid()
    for name, value in forecast_lines(forecast):
        grid.add_row(name, Text(value))
    console.print(grid)
    if forecast.seconds_by_provenance:
        print_table(console, _provenance_table(forecast, console))
    console.print()
    print_list(console, (("·", note) for note in forecast.assumptions))


def _provenance_table(forecast: TraceForecast, console: Console) -> Table:
    total = sum(forecast.seconds_by_provenance.values())
    table = shares_table("What the forecast rests on", "Recorded work", "Time")
    for name, seconds in sorted(forecast.seconds_by_provenance.items(), key=lambda item: -item[1]):
        table.add_row(*plain(name, format_seconds(seconds), *share(seconds, total, console)))
    return table


def describe_trace_forecast(forecast: TraceForecast) -> str:
    """One line: what is forecast from what."""
    where = f" on {forecast.device}" if forecast.device else ""
    recorded = f", recorded on {forecast.recorded_device}" if forecast.recorded_device else ""
    ranks = f", {forecast.num_ranks:,} ranks" if forecast.num_ranks > 1 else ""
    return f"{Path(forecast.source).name}{ranks}{where}{recorded}"


def forecast_lines(forecast: TraceForecast) -> list[tuple[str, str]]:
    """Names and values, in the order in which they are read."""
    low, high = format_seconds(forecast.step_seconds_low), format_seconds(forecast.step_seconds_high)
    replayed, steady = forecast.replayed_seconds, forecast.steady_seconds
    off = replayed / forecast.measured_seconds - 1 if forecast.measured_seconds else 0.0
    lines = [
        ("Step", f"{format_seconds(forecast.step_seconds)} ({low} to {high}), in the long run"),
        (
            "Recorded",
            f"{format_seconds(forecast.measured_seconds)}; run again {format_seconds(replayed)}, {off:+.1%}; "
            f"in the long run {format_seconds(steady)}",
        ),
        ("Speed-up", f"× {forecast.speedup:.3g} of the recorded program in the long run"),
        ("Host", _change(forecast.host_seconds_before, forecast.host_seconds_after)),
    ]
    if forecast.device_seconds_before:
        lines.append(("Device", _change(forecast.device_seconds_before, forecast.device_seconds_after)))
    return lines


def _change(before: float, after: float) -> str:
    return f"{format_seconds(before)} → {format_seconds(after)} a step"


def trace_forecast_to_dict(forecast: TraceForecast) -> dict[str, Any]:
    """Everything, in the keys of ``trace_forecast_schema``."""
    data = asdict(forecast)
    data["assumptions"] = list(forecast.assumptions)
    header = {"schema_version": SCHEMA_VERSION, "perfcast_version": perfcast_version()}
    return {**header, **data, "speedup": forecast.speedup}


def trace_forecast_schema() -> dict[str, Any]:
    """The published schema."""
    folder = resources.files("perfcast.report").joinpath("schema")
    schema: dict[str, Any] = json.loads(folder.joinpath("trace_forecast.schema.json").read_text("utf-8"))
    return schema
