"""Forecasts and tables for a terminal: 80 columns, readable without colour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.core.forecast.device import Forecast, MemoryForecast, OperationTime
from perfcast.report.json_format import tokens_per_second
from perfcast.report.tables import (
    new_grid,
    new_table,
    percent,
    plain,
    print_list,
    print_table,
    share,
    shares_table,
    words,
)
from perfcast.units import format_bytes, format_count, format_seconds

MAX_OPERATIONS = 10
MAX_SHAPES_LENGTH = 60

Row = Mapping[str, Any]


def print_forecast(forecast: Forecast, console: Console) -> None:
    """A forecast: the headline figures, then where time and memory go, then what was assumed."""
    print_title(forecast, console)
    console.print(_headline(forecast))
    print_table(console, _phase_table(forecast, console))
    print_table(console, _kind_table(forecast, console))
    print_table(console, _operation_table(forecast))
    print_table(console, category_table(forecast.memory, console))
    console.print(Text(f"Peak {describe_peak(forecast.memory)}"))
    print_assumptions(forecast.assumptions, console)


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


def describe_fit(memory: MemoryForecast) -> str:
    """What is needed against the device's memory, as a phrase."""
    difference = format_bytes(abs(memory.capacity_bytes - memory.needed_bytes))
    against = f"{format_bytes(memory.needed_bytes)} of {format_bytes(memory.capacity_bytes)}"
    return (
        f"{against}: fits, {difference} free"
        if memory.fits
        else f"{against}: does not fit, {difference} too much"
    )


def describe_peak(memory: MemoryForecast) -> str:
    """Where the peak is, as a phrase."""
    where = f" of {memory.peak_module}" if memory.peak_module else ""
    return f"at {memory.peak_operation}{where}, in the {memory.peak_phase} (node {memory.peak_node})"


def describe_workload(forecast: Forecast) -> str:
    """Mode, batch and precision, as a phrase."""
    length = f" × {forecast.sequence_length} tokens" if forecast.sequence_length is not None else ""
    return f"{forecast.mode} · batch {forecast.batch_size}{length} · {forecast.dtype}"


def describe_provenance(forecast: Forecast) -> str:
    """Shares of the step by what its prices rest on, as a phrase; '' where there is one tag alone."""
    seconds = forecast.seconds_by_provenance
    total = sum(seconds.values())
    if not total or set(seconds) <= {"", "fitted", "bounded"}:
        return ""
    return " · ".join(f"{tag} {percent(value / total)}" for tag, value in seconds.items())


def bound_by_kind(operations: Sequence[OperationTime]) -> dict[str, str]:
    """What limits most of each kind's time."""
    seconds: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for operation in operations:
        seconds[operation.kind][operation.bound_by] += operation.seconds
    return {kind: max(limits, key=limits.__getitem__) for kind, limits in seconds.items()}


def print_title(forecast: Forecast, console: Console) -> None:
    """Model, device and workload."""
    title = Text(f"{forecast.model} on {forecast.device_title or forecast.device}", style="bold")
    console.print(title)
    console.print(Text(describe_workload(forecast)))
    console.print()


def category_table(memory: MemoryForecast, console: Console) -> Table:
    """What the peak consists of by category."""
    table = shares_table("Memory at the peak", "Category", "Memory")
    total = sum(memory.bytes_by_category.values())
    for category, num_bytes in sorted(memory.bytes_by_category.items(), key=lambda item: -item[1]):
        if num_bytes:
            table.add_row(*plain(words(category)), format_bytes(num_bytes), *share(num_bytes, total, console))
    return table


def print_assumptions(assumptions: Sequence[str], console: Console) -> None:
    """What was taken for granted, one line each."""
    if assumptions:
        console.print()
        console.print(Text("Assumptions", style="dim"))
        print_list(console, [("-", assumption) for assumption in assumptions])


def _headline(forecast: Forecast) -> Table:
    low, high = format_seconds(forecast.step_seconds_low), format_seconds(forecast.step_seconds_high)
    grid = new_grid()
    step = Text(format_seconds(forecast.step_seconds), style="bold")
    grid.add_row("Step time", step.append(f"  ({low} – {high})", style="not bold"))
    if forecast.exposed_host_seconds:
        step.append(f", {format_seconds(forecast.exposed_host_seconds)} of it waiting for the host")
    rates = [(forecast.samples_per_second, "samples/s")]
    tokens = tokens_per_second(forecast)
    if tokens is not None:
        rates.insert(0, (tokens, "tokens/s"))
    grid.add_row("Throughput", " · ".join(f"{format_count(rate)} {unit}" for rate, unit in rates))
    recompute = f"  (HFU {percent(forecast.hfu)})" if forecast.recompute_flops else ""
    grid.add_row("MFU", f"{percent(forecast.mfu)}{recompute}")
    grid.add_row(
        "Peak memory", Text(describe_fit(forecast.memory), style="" if forecast.memory.fits else "bold red")
    )
    grid.add_row("Parameters", format_count(forecast.parameter_count))
    grid.add_row("Cost model", *plain(forecast.cost_model))
    if known := describe_provenance(forecast):
        grid.add_row("Time that is", *plain(known))
    return grid


def _phase_table(forecast: Forecast, console: Console) -> Table:
    table = shares_table("Time by phase", "Phase", "Time")
    total = sum(forecast.seconds_by_phase.values())
    for phase, seconds in forecast.seconds_by_phase.items():
        table.add_row(*plain(phase), format_seconds(seconds), *share(seconds, total, console))
    return table


def _kind_table(forecast: Forecast, console: Console) -> Table:
    table = shares_table("Time by kind of operation", "Kind", "Time")
    table.add_column("Count", justify="right", no_wrap=True)
    table.add_column("Bound by", no_wrap=True)
    limits = bound_by_kind(forecast.operations)
    total = sum(group.seconds for group in forecast.by_kind)
    for group in sorted((g for g in forecast.by_kind if g.seconds), key=lambda g: -g.seconds):
        shares = share(group.seconds, total, console)
        name, limit = plain(words(group.label), limits.get(group.label, "–"))
        table.add_row(name, format_seconds(group.seconds), *shares, str(group.count), limit)
    return table


def _operation_table(forecast: Forecast) -> Table:
    table = new_table("Slowest operations")
    table.add_column("Operation", overflow="ellipsis", no_wrap=True, max_width=26)
    table.add_column("Phase", no_wrap=True)
    table.add_column("Shapes", overflow="fold")
    for name in ("Count", "Time", "Share"):
        table.add_column(name, justify="right", no_wrap=True)
    total = sum(operation.seconds for operation in forecast.operations)
    slowest = sorted(forecast.operations, key=lambda o: -o.seconds)[:MAX_OPERATIONS]
    for operation in slowest:
        table.add_row(
            *plain(operation.name, operation.phase, _shortened(operation.shapes), operation.count),
            format_seconds(operation.seconds),
            percent(operation.seconds / total if total else 0.0),
        )
    if len(forecast.operations) > len(slowest):
        table.caption = f"{len(slowest)} of {len(forecast.operations)} different operations"
    return table


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
