"""Measured against predicted, in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from perfcast.report.text import print_validation
from perfcast.units import format_bytes, format_seconds

Entry = Mapping[str, Any]

_PAIRED = "paired with "
_WIDEST = 200
_SOUND = "sound, "
#: Groups that are shown with the predictors side by side, and what they are called.
_SIDE_BY_SIDE = {
    "quality, operation, device": "Kernels by operation and device, sound measurements",
    "model, mode": "Steps by model",
    "mode, device": "Steps by device",
    "variant": "Steps, as run and compiled",
    "part, device": "Forward and backward of training apart",
    "distribution": "Devices and models that the study's own predictors had seen, and others",
    "provenance": "By what the predictor knows of it",
    "quality": "By what is known of the measurement",
}


def print_row(row: Entry, console: Console) -> None:
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


def print_summary(summary: Sequence[Entry], console: Console) -> None:
    """The summary of a suite, one line per predictor and group."""
    print_validation([error_row(entry) for entry in summary if entry["group"] in ("all", "mode")], console)


def error_row(entry: Entry) -> Entry:
    """An entry of a summary as ``print_validation`` takes it."""
    return {
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


def print_suite(summary: Sequence[Entry], console: Console) -> None:
    """All error tables of a suite over measured tables, predictors side by side."""
    print_summary([entry for entry in summary if entry["group"] == "all"], console)
    print_skipped([entry for entry in summary if entry["group"] == "skipped"], console)
    for group, title in _SIDE_BY_SIDE.items():
        entries = [entry for entry in summary if entry["group"] == group and entry["n"]]
        if group.startswith("quality, "):
            entries = [
                {**entry, "value": entry["value"].removeprefix(_SOUND)}
                for entry in entries
                if entry["value"].startswith(_SOUND)
            ]
        if entries:
            _print_wide(_side_by_side(title, entries), console)
    paired = [entry for entry in summary if entry["group"].startswith(_PAIRED)]
    if paired:
        _print_wide(_paired_table(paired), console)


# ---- memory ------------------------------------------------------------------------------------------

_MEMORY_GROUPS = ("metric", "metric, source", "metric, table", "metric, device", "metric, devices")


def print_memory(rows: Iterable[Entry], summary: Sequence[Entry], console: Console) -> None:
    """Every measurement of the memory suite, then its error tables and what it says of outcomes."""
    for row in rows:
        console.print(_memory_line(row), markup=False, soft_wrap=True)
    print_skipped([entry for entry in summary if entry["group"] == "skipped"], console)
    errors = [entry for entry in summary if entry["group"] in _MEMORY_GROUPS and entry["n"]]
    print_validation([{**error_row(e), "group": e["value"]} for e in errors], console)
    outcomes = [entry for entry in summary if entry["group"].startswith("outcome")]
    if outcomes:
        _print_wide(_outcome_table(outcomes), console)


def _memory_line(row: Entry) -> str:
    """'training:12 · usp · allocated  predicted 24.1 GiB (22 GiB – 26 GiB)  measured 24.2 GiB  -0.5%'."""
    what = f"{row['table']}:{str(row['row']).rpartition(':')[2]} · {row['collection']} · {row['metric']}"
    marks = "".join(
        f"  {text} {row[key]}"
        for key, text in (("duplicate_of", "same as"), ("contradicted_by", "contradicted by"))
        if row.get(key)
    )
    if row["skipped"]:
        return f"{what:52} skipped: {row['skipped']}{marks}"
    low, high = (format_bytes(row[f"predicted_bytes_{end}"]) for end in ("low", "high"))
    predicted = f"predicted {format_bytes(row['predicted_bytes']):>8} ({low} – {high})"
    if row["metric"] == "outcome":
        said, was = (("fits" if row[f"{who}_fits"] else "fails") for who in ("predicted", "measured"))
        return f"{what:52} {predicted}  called {said}, {was}{marks}"
    measured = f"measured {format_bytes(row['measured_bytes']):>8}  {row['relative_error']:+.1%}"
    return f"{what:52} {predicted}  {measured}{marks}"


def _outcome_table(entries: Sequence[Entry]) -> Table:
    table = _table("Runs called as they went, in percent")
    for name in ("Predictor", "Runs"):
        table.add_column(name, no_wrap=True)
    for name in ("Rows", "Skipped", "Called right"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        share = entry["share_called_right"]
        cells = (entry["predictor"], entry["value"], entry["n"], entry["skipped"])
        table.add_row(*(Text(str(c)) for c in cells), Text("–" if share is None else f"{100 * share:.1f}"))
    return table


def print_skipped(entries: Sequence[Entry], console: Console) -> None:
    """'learned skipped 2,881 rows: unsupported operation 598, …'."""
    for name in dict.fromkeys(entry["predictor"] for entry in entries):
        mine = [entry for entry in entries if entry["predictor"] == name]
        reasons = ", ".join(f"{entry['value']} {entry['skipped']:,}" for entry in mine)
        total = sum(entry["skipped"] for entry in mine)
        console.print(f"{name} skipped {total:,} rows: {reasons}", markup=False, soft_wrap=True)


def _side_by_side(title: str, entries: Sequence[Entry]) -> Table:
    """A line for each value; for each predictor mean error in percent, rows judged, and coverage if any."""
    table = _table(f"{title}: mean error in percent (rows)")
    judged = dict.fromkeys(entry["predictor"] for entry in entries)
    sure = dict.fromkeys(entry["predictor"] for entry in entries if entry["coverage"] is not None)
    found = {(entry["value"], entry["predictor"]): entry for entry in entries}
    table.add_column("", overflow="fold", min_width=20)
    for name in judged:
        table.add_column(Text(name.replace(":", ":\n")), justify="right", no_wrap=True)
        if name in sure:
            table.add_column("Covered", justify="right", no_wrap=True)
    for value in dict.fromkeys(entry["value"] for entry in entries):
        cells = [value]
        for name in judged:
            entry = found.get((value, name))
            cells += [_error(entry), *([_coverage(entry)] if name in sure else [])]
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _error(entry: Entry | None) -> str:
    """'8.2 (59)': mean absolute relative error, rows."""
    if entry is None or not entry["n"]:
        return "–"
    return f"{100 * entry['mean_absolute_relative_error']:.1f} ({entry['n']})"


def _coverage(entry: Entry | None) -> str:
    return "–" if entry is None or entry["coverage"] is None else f"{100 * entry['coverage']:.0f} %"


def _paired_table(entries: Sequence[Entry]) -> Table:
    first, second = entries[0]["predictor"], entries[0]["group"].removeprefix(_PAIRED)
    table = _table(f"{first} and {second} on the same steps: mean error in percent, difference in points")
    table.add_column("Steps", overflow="fold", min_width=12)
    for name in ("n", first, second, "Difference", "90 % interval", "Better"):
        table.add_column(Text(name.replace(":", ":\n")), justify="right", no_wrap=True)
    for entry in entries:
        low, high = entry["mean_difference_low"], entry["mean_difference_high"]
        cells = (
            entry["value"],
            entry["n"],
            f"{100 * entry['mean_absolute_relative_error']:.1f}",
            f"{100 * entry['mean_absolute_relative_error_other']:.1f}",
            f"{100 * entry['mean_difference']:+.1f}",
            f"{100 * low:+.1f} to {100 * high:+.1f}",
            f"{entry['wins']} of {entry['n']}",
        )
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table


def _print_wide(table: Table, console: Console) -> None:
    """Past the terminal's edge rather than with columns that are cut to nothing."""
    options = console.options.update(max_width=_WIDEST)
    table.width = max(Measurement.get(console, options, table).maximum, 1)
    console.print()
    console.print(table, crop=False, no_wrap=True, overflow="ignore")


def _table(title: str) -> Table:
    return Table(
        title=Text(title),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
