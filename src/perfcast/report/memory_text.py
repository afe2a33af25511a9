"""Memory of a step for a terminal, and the search for the largest size that fits."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.core.forecast.device import AliveTensors, Forecast, MemoryForecast, ReservedMemory
from perfcast.core.forecast.largest import Largest
from perfcast.memory.compare import Comparison
from perfcast.report.tables import new_grid, new_table, plain, print_table, words
from perfcast.report.text import (
    category_table,
    describe_fit,
    describe_peak,
    print_assumptions,
    print_title,
)
from perfcast.units import format_bytes, format_count

MAX_TENSORS = 12

_WORDS = {"batch_size": "batch size", "sequence_length": "sequence length"}


def print_memory(forecast: Forecast, console: Console) -> None:
    """Memory alone: the peak, what it consists of, and the largest tensors with the lines that make them."""
    memory = forecast.memory
    print_title(forecast, console)
    grid = new_grid()
    grid.add_row("Needed", Text(describe_fit(memory), style="bold" if memory.fits else "bold red"))
    grid.add_row("Tensors", f"{format_bytes(memory.peak_bytes)} at the peak")
    grid.add_row("", f"{format_bytes(memory.peak_by_last_use_bytes)} if each were freed at its last use")
    if memory.reserved:
        grid.add_row("Reserved", describe_reserved(memory.reserved))
        grid.add_row("Context", describe_context(memory.reserved))
    grid.add_row("Parameters", format_count(forecast.parameter_count))
    console.print(grid)
    print_table(console, category_table(memory, console))
    console.print(Text(f"Peak {describe_peak(memory)}"))
    print_table(console, _alive_table(memory))
    print_assumptions(forecast.assumptions, console)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """The closed form beside the captured step: both peaks, and every difference by name."""
    table = new_table("Closed form and captured step")
    for heading, justify in (
        ("Name", "left"),
        ("Closed form", "right"),
        ("Captured", "right"),
        ("", "right"),
    ):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    table.add_row(
        f"peak ({comparison.moment})",
        format_bytes(comparison.closed_form_bytes),
        format_bytes(comparison.graph_bytes),
        f"{100 * comparison.relative_error:+.2f} %",
    )
    for row in comparison.differences[:MAX_TENSORS]:
        table.add_row(
            f"{words(row.category)}: {row.name}",
            format_bytes(row.closed_form_bytes),
            format_bytes(row.graph_bytes),
            f"{'-' if row.difference_bytes < 0 else '+'}{format_bytes(abs(row.difference_bytes))}",
        )
    print_table(console, table)


def print_largest(largest: Largest, console: Console) -> None:
    """The answer of a search, before the forecast at it."""
    console.print(Text(describe_largest(largest), style="bold"))
    sizes = ", ".join(str(probe.size) for probe in largest.probes)
    console.print(Text(f"{len(largest.probes)} captures, at {sizes}; memory is taken to grow with the size"))
    console.print()


def describe_largest(largest: Largest) -> str:
    """The answer in a sentence."""
    what = _WORDS[largest.quantity]
    capacity = format_bytes(largest.capacity_bytes)
    by_size = {probe.size: probe for probe in largest.probes}
    if largest.value is None:
        if not largest.probes:
            return f"No {what} was tried"
        smallest = min(largest.probes, key=lambda probe: probe.size)
        need = format_bytes(smallest.needed_bytes)
        return f"Nothing fits: {what} {smallest.size} needs {need} of {capacity}"
    need = format_bytes(by_size[largest.value].needed_bytes)
    answer = f"{what} {largest.value}: {need} of {capacity}"
    if not largest.is_complete:
        return f"Interrupted; the largest known to fit is {answer}"
    following = by_size.get(largest.value + 1)
    if following is not None:
        return f"Largest {answer}; {following.size} needs {format_bytes(following.needed_bytes)}"
    return f"Largest {answer}; {largest.limit or 'the search goes no further'}"


def describe_reserved(reserved: ReservedMemory) -> str:
    """What the caching allocator takes for the tensors, as a phrase."""
    idle = f"{100 * reserved.fragmentation:.1f} % of it unused at its peak"
    retries = f"; cached memory is given back {reserved.num_retries} times" if reserved.num_retries else ""
    return f"{format_bytes(reserved.peak_bytes)} by the caching allocator, {idle}{retries}"


def describe_context(reserved: ReservedMemory) -> str:
    """The driver's context, as a phrase."""
    if not reserved.context_bytes:
        return "not counted: none was measured"
    low, high = format_bytes(reserved.context_low_bytes), format_bytes(reserved.context_high_bytes)
    return f"{format_bytes(reserved.context_bytes)} ({low} to {high} measured)"


def _describe_maker(group: AliveTensors) -> Text:
    """Operation and line of code, and below them the module."""
    line = group.created_at.partition(" in ")[0]
    maker = Text(" · ".join(filter(None, (group.operation or "before the step", line))))
    return maker.append(f"\n{group.module}", style="dim") if group.module else maker


def _describe_blocks(group: AliveTensors) -> str:
    """How many of which size."""
    size = format_bytes(group.num_bytes)
    return size if group.count == 1 else f"{group.count} × {size}"


def _alive_table(memory: MemoryForecast) -> Table:
    table = new_table("Alive at the peak")
    table.add_column("Bytes", justify="right", no_wrap=True)
    table.add_column("Tensors", justify="right", no_wrap=True)
    table.add_column("Category", no_wrap=True)
    table.add_column("Made by", overflow="fold")
    groups = memory.alive_at_peak[:MAX_TENSORS]
    for group in groups:
        blocks, category = plain(_describe_blocks(group), words(group.category))
        table.add_row(format_bytes(group.total_bytes), blocks, category, _describe_maker(group))
    if len(memory.alive_at_peak) > len(groups):
        rest = sum(group.total_bytes for group in memory.alive_at_peak[MAX_TENSORS:])
        left_out = len(memory.alive_at_peak) - len(groups)
        table.caption = f"and {left_out} more groups of equal tensors, {format_bytes(rest)}"
    return table
