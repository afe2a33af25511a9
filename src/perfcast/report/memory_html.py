"""Memory of a step as one HTML file: over time by category and by module, and what the peak consists of."""

from __future__ import annotations

from html import escape
from itertools import islice

from perfcast.core.forecast.device import Forecast, MemoryForecast
from perfcast.core.forecast.largest import Largest
from perfcast.report.html import (
    MAX_ROWS,
    Card,
    Cell,
    Section,
    assumptions,
    cards,
    figure_html,
    left_out,
    memory_section,
    page,
    share,
    table,
    words,
)
from perfcast.report.memory_figures import plot_largest, plot_memory_by_module, plot_reserved
from perfcast.report.memory_text import describe_context, describe_largest, describe_reserved
from perfcast.report.text import describe_peak, describe_workload
from perfcast.units import format_bytes, format_count


def render_memory_html(forecast: Forecast, largest: Largest | None = None) -> str:
    """The whole report of a step's memory as one page.

    Args:
        largest: The search whose answer (or smallest size, if nothing fits) the forecast is of.
    """
    title = f"Memory of {forecast.model} on {forecast.device_title or forecast.device}"
    workload = f"{describe_workload(forecast)} · {format_count(forecast.parameter_count)} parameters"
    lead = f'<p class="lead">{escape(workload)}</p>'
    sections = [Section("", lead + _verdict(forecast.memory) + cards(_headline(forecast)))]
    if largest is not None:
        sections.append(Section("Largest that fits", _largest(largest)))
    sections += [
        Section("Memory over the step, by category", memory_section(forecast)),
        Section("Memory over the step, by module", figure_html(plot_memory_by_module(forecast), "modules")),
        Section("Alive at the peak", _alive(forecast.memory)),
        *_reserved(forecast.memory),
        Section("Assumptions", assumptions(forecast)),
    ]
    return page(title, sections)


def _headline(forecast: Forecast) -> list[Card]:
    memory = forecast.memory
    reserved = memory.reserved
    by_size = sorted(memory.bytes_by_category.items(), key=lambda item: -item[1])
    largest = [
        Card(words(name).capitalize(), format_bytes(n), f"{100 * n / memory.peak_bytes:.0f} % of the peak")
        for name, n in by_size[:2]
        if n
    ]
    held = [
        Card("Reserved", format_bytes(reserved.peak_bytes), f"{100 * reserved.fragmentation:.1f} % unused"),
        Card("Context", format_bytes(reserved.context_bytes), "of the driver"),
    ] if reserved else []  # fmt: skip
    return [
        Card("Tensors at the peak", format_bytes(memory.peak_bytes)),
        *held,
        *largest,
    ]


def _verdict(memory: MemoryForecast) -> str:
    spare = format_bytes(abs(memory.capacity_bytes - memory.needed_bytes))
    margin = f"{spare} free" if memory.fits else f"{spare} too much"
    text = f"needs {format_bytes(memory.needed_bytes)} of {format_bytes(memory.capacity_bytes)}, {margin}"
    word, style = ("Fits", "yes") if memory.fits else ("Does not fit", "no")
    return f'<p class="verdict {style}"><strong>{word}</strong> {escape(text)}</p>'


def _reserved(memory: MemoryForecast) -> list[Section]:
    reserved = memory.reserved
    if reserved is None:
        return []
    settings = f" with {reserved.settings}" if reserved.settings else ""
    note = (
        f"PyTorch's caching allocator{settings} in the first {len(reserved.step_starts)} steps: "
        f"{describe_reserved(reserved)}. "
        f"The driver's context: {describe_context(reserved)}."
    )
    figure = figure_html(plot_reserved(reserved, memory.capacity_bytes), "reserved")
    return [Section("Reserved memory", f'{figure}<p class="note">{escape(note)}</p>')]


def _largest(largest: Largest) -> str:
    note = (
        f"{describe_largest(largest)}. The model was captured at each of the {len(largest.probes)} sizes "
        "shown; memory is taken to grow with the size."
    )
    return figure_html(plot_largest(largest), "largest") + f'<p class="note">{escape(note)}</p>'


def _alive(memory: MemoryForecast) -> str:
    rows = [
        (
            Cell(format_bytes(group.total_bytes), group.total_bytes),
            share(group.total_bytes, memory.peak_bytes),
            Cell(str(group.count), group.count),
            Cell(format_bytes(group.num_bytes), group.num_bytes),
            Cell(words(group.category)),
            Cell(group.operation or "before the step"),
            Cell(group.module or "–"),
            Cell(group.created_at or "–"),
        )
        for group in islice(memory.alive_at_peak, MAX_ROWS)
    ]
    headings = ("Bytes", "Share", "Count", "Each", "Category", "Operation", "Module", "Line of code")
    note = (
        f"Everything that is held {describe_peak(memory)}: equal tensors together, those with most bytes "
        "first. A tensor of the backward carries the line of the forward that it belongs to."
    )
    return (
        f'<p class="note">{escape(note)}</p>'
        + table(headings, rows)
        + left_out(len(memory.alive_at_peak), "groups of equal tensors")
    )
