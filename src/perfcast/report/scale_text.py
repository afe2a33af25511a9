"""Scaling curves for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from perfcast.core.plan import Plan
from perfcast.core.plan_text import format_values, stated_values
from perfcast.prediction.sweep.scale import ScaleForecast, ScalePoint
from perfcast.report.tables import new_table, percent, print_list, print_table
from perfcast.units import format_count, format_seconds

_HEADINGS = ("Devices", "Batch", "Step", "Tokens/s", "Effic.", "MFU", "Comm.", "Bubble")


def print_scaling(found: ScaleForecast, console: Console) -> None:
    """A table for each cluster, points without a forecast, then what all points assume."""
    console.print(Text(describe_scaling(found), style="bold"))
    kept = [i for i, heading in enumerate(_HEADINGS) if heading != "Batch" or found.is_weak]
    for curve in found.curves:
        table = new_table(f"{curve.title}: {curve.device}")
        for index in kept:
            table.add_column(_HEADINGS[index], justify="right", no_wrap=True)
        table.add_column("Plan", overflow="fold")
        for point in curve.points:
            if point.forecast is not None:
                cells = point_cells(point)
                table.add_row(*(Text(cells[index]) for index in kept), Text(cells[-1]))
        print_table(console, table)
        missing = [point for point in curve.points if point.forecast is None]
        print_list(console, ((f"{point.num_devices:,}", point.skipped) for point in missing))
    console.print()
    console.print(Text(LEGEND, style="dim"))
    print_list(console, (("·", note) for note in found.assumptions))


#: What the columns of shares are of.
LEGEND = (
    "Effic.: tokens/s of a device over those of the first row. Comm.: part of the step that is communication "
    "which no compute hides. Bubble: that stages wait for one another"
)


def describe_scaling(found: ScaleForecast) -> str:
    """One line: what grows."""
    kind = "weak" if found.is_weak else "strong"
    batch = f"{found.batch_size:,} sequences of {found.sequence_length:,} tokens"
    if found.is_weak:
        batch += f" on {smallest_count(found):,} devices, in proportion on more"
    return f"{found.model}, {kind} scaling: {batch}"


def smallest_count(found: ScaleForecast) -> int:
    """The smallest number of devices."""
    return min(point.num_devices for curve in found.curves for point in curve.points)


def point_cells(point: ScalePoint) -> list[str]:
    """Texts of one row; the last one is the plan, or why there is no forecast."""
    forecast = point.forecast
    first = [f"{point.num_devices:,}", f"{point.batch_size:,}"]
    if forecast is None:
        return [*first, *[""] * (len(_HEADINGS) - 2), point.skipped]
    return [
        *first,
        format_seconds(forecast.step_seconds),
        format_count(forecast.tokens_per_second),
        _percent(point.efficiency),
        percent(forecast.mfu),
        _percent(point.exposed_share),
        _percent(point.bubble_share),
        describe_degrees(forecast.plan) + ("" if fits(point) else ", does not fit"),
    ]


def fits(point: ScalePoint) -> bool:
    """Whether the memory holds the plan, as far as is known."""
    memory = point.forecast.memory if point.forecast else None
    return memory is None or memory.fits


def describe_degrees(plan: Plan | None) -> str:
    """``'tp=8 pp=4 zero=1'``: what a plan states, but dp and the micro-batch, which follow."""
    if plan is None:
        return ""
    follows = ("data_parallel", "micro_batch_size")
    stated = {field: value for field, value in stated_values(plan).items() if field not in follows}
    return format_values(stated, " ") or "dp alone"


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else percent(fraction)
