"""Inference over batch sizes and contexts for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from perfcast.prediction.sweep.serving import Phase, ServingForecast, ServingPoint
from perfcast.report.scale_text import describe_degrees
from perfcast.report.tables import new_table, print_list, print_table
from perfcast.units import format_bytes, format_count, format_seconds

#: Of the table; rates are of one device.
HEADINGS = (
    "Context",
    "Batch",
    "First\ntoken",
    "Per\ntoken",
    "Tokens/s\na device",
    "Prompt\ntokens/s",
    "Memory",
)


def print_serving(found: ServingForecast, console: Console) -> None:
    """The table of the sweep, what the memory holds, and what all points assume."""
    console.print(Text(describe_serving(found), style="bold"))
    table = new_table("")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for point in found.points:
        if not point.skipped:
            table.add_row(*map(Text, (*point_cells(point, found.num_devices), describe_fit(point))))
    print_table(console, table)
    print_list(
        console, ((f"{p.batch_size:,} × {p.context_length:,}", p.skipped) for p in found.points if p.skipped)
    )
    console.print()
    for context, batch in found.largest_batches:
        console.print(Text(describe_largest(context, batch)))
    console.print()
    print_list(console, (("·", note) for note in found.assumptions))


def describe_serving(found: ServingForecast) -> str:
    """One line: model, plan, devices."""
    return (
        f"{found.model} in {found.dtype} on {found.num_devices:,} × {found.device} ({found.cluster}), "
        f"{describe_degrees(found.plan)}"
    )


def point_cells(point: ServingPoint, num_devices: int) -> list[str]:
    """Texts of one row, by ``HEADINGS``."""
    return [
        f"{point.context_length:,}",
        f"{point.batch_size:,}",
        _seconds(point.prefill),
        _seconds(point.decode),
        _rate(point.decode, num_devices),
        _rate(point.prefill, num_devices),
        "" if point.skipped else format_bytes(point.memory_bytes),
    ]


def describe_fit(point: ServingPoint) -> str:
    """Why there is no forecast, or that the memory does not hold it."""
    return point.skipped or ("" if point.fits else "does not fit")


def describe_largest(context: int, batch: int) -> str:
    """What the memory holds of a context."""
    if not batch:
        return f"the memory holds no sequence of {context:,} tokens"
    return f"the memory holds {batch:,} sequences of {context:,} tokens"


def _rate(phase: Phase | None, num_devices: int) -> str:
    return "" if phase is None else format_count(phase.tokens_per_second / num_devices)


def _seconds(phase: Phase | None) -> str:
    return "" if phase is None else format_seconds(phase.seconds)
