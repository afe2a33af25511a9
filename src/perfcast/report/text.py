"""Forecasts and tables for a terminal: 80 columns, readable without colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from perfcast.report.tables import (
    new_grid,
    new_table,
    plain,
    print_list,
    words,
)
from perfcast.units import format_bytes, format_count

MAX_OPERATIONS = 10
MAX_SHAPES_LENGTH = 60

Row = Mapping[str, Any]


def print_devices(devices: Iterable[Row], console: Console) -> None:
    """A list of devices.

    Each is a mapping with ``name``, ``title``, ``year``, ``memory_bytes``, ``memory_bytes_per_second``
    and ``matrix_flops_per_second`` (the peak to compare by, such as bf16's; None where unknown).
    """
    table = new_table("")
    table.add_column("Name", no_wrap=True)
    table.add_column("Device", overflow="fold")
    for name in ("Year", "Memory", "Bandwidth", "Peak"):
        table.add_column(name, justify="right", no_wrap=True)
    for device in devices:
        table.add_row(
            *plain(device["name"], device["title"], device["year"]),
            format_bytes(device["memory_bytes"]),
            _rate(device["memory_bytes_per_second"], "B/s"),
            _rate(device.get("matrix_flops_per_second"), "FLOP/s"),
        )
    console.print(table)


def print_device(device: Row, console: Console, figures: Iterable[Row]) -> None:
    """One device: ``device`` has ``name`` and ``title``, and ``note`` if there is one.

    Each figure is a mapping with ``name``, ``value``, ``unit`` and ``source``.
    """
    _print_named(device, console)
    _print_figures(figures, console)


def print_models(models: Iterable[Row], console: Console) -> None:
    """A list of models, each a mapping with ``name``, ``title``, ``family`` and ``parameter_count``."""
    table = new_table("")
    table.add_column("Name", no_wrap=True)
    table.add_column("Model", overflow="fold")
    table.add_column("Family", no_wrap=True)
    table.add_column("Parameters", justify="right", no_wrap=True)
    for model in models:
        count = model["parameter_count"]
        table.add_row(
            *plain(model["name"], model["title"], model["family"]),
            "–" if count is None else format_count(count),
        )
    console.print(table)


def print_model(model: Row, console: Console, figures: Iterable[Row] = ()) -> None:
    """One model: ``model`` has ``name`` and ``title``; figures as for ``print_device``."""
    _print_named(model, console)
    _print_figures(figures, console)


def print_validation(rows_summary: Iterable[Row], console: Console) -> None:
    """Measured against predicted, one line per predictor and group.

    Each row is a mapping with ``predictor``, ``group`` (what is grouped by, and its value), ``n``,
    ``skipped``, and as fractions ``mean``, ``median`` and ``p90`` of the absolute relative error,
    ``signed_mean`` and ``coverage`` of the interval; None where there is nothing to tell.
    """
    table = new_table("Error of the predictions, in percent")
    table.add_column("Predictor", no_wrap=True)
    table.add_column("Group", overflow="fold")
    for name in ("Rows", "Skipped", "Mean", "Median", "90th", "Bias", "Covered"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows_summary:
        table.add_row(
            *plain(row["predictor"], row["group"], row["n"], row["skipped"]),
            *(_hundredths(row.get(key)) for key in ("mean", "median", "p90")),
            _hundredths(row.get("signed_mean"), "+"),
            _hundredths(row.get("coverage")),
        )
    console.print(table)


def _print_figures(figures: Iterable[Row], console: Console) -> None:
    """Figures with the numbers of their sources, then the sources: these are long and often shared."""
    table, sources = new_grid(), dict[str, int]()
    for figure in figures:
        value, unit = figure["value"], "" if figure["unit"] in ("1", "year") else figure["unit"]
        shown = f"{value:.10g}" if isinstance(value, float) else str(value)
        number = sources.setdefault(figure["source"], len(sources) + 1)
        table.add_row(*plain(words(figure["name"]), f"{shown} {unit}".rstrip(), f"[{number}]"))
    if sources:
        console.print()
        console.print(table)
        console.print()
        print_list(console, [(f"[{number}]", source) for source, number in sources.items()])


def _print_named(thing: Row, console: Console) -> None:
    console.print(Text(f"{thing.get('title') or thing['name']}", style="bold"))
    console.print(Text(thing["name"]))
    if thing.get("note"):
        console.print(Text(thing["note"]))


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHAPES_LENGTH else f"{text[: MAX_SHAPES_LENGTH - 1]}…"


def _hundredths(fraction: float | None, sign: str = "") -> str:
    return "–" if fraction is None else f"{100 * fraction:{sign}.1f}"


def _rate(rate: float | None, unit: str) -> str:
    return "–" if rate is None else format_count(rate, unit)
