"""Plots of memory: over a step by category and by module, and what each tried size needs.

Values are in GiB or MiB, as the axis says. See ``figures`` for the look that they share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from perfcast.core.forecast.device import Forecast, MemoryForecast, ReservedMemory
from perfcast.core.forecast.largest import Largest
from perfcast.report.figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LINE,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    YELLOW,
    finish,
)
from perfcast.report.json_format import downsample_indices
from perfcast.units import GIB, MIB, format_bytes

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

CATEGORY_COLOURS = {
    "parameter": BLUE,
    "optimizer_state": PURPLE,
    "gradient": GREEN,
    "activation": ORANGE,
    "temporary": RED,
    "kv_cache": PINK,
    "input": YELLOW,
    "buffer": GREY,
}
#: Layers go from light to dark; the other modules take turns.
LAYER_COLOURS = ("#cfe3f5", "#b3d2ee", "#96c0e5", "#7aaedb", "#5f9bcf", "#4788c1", "#3574ad", "#265f95")
MODULE_COLOURS = (ORANGE, GREEN, PINK, YELLOW, RED, "#5bb5b0")
MAX_PLOTTED_POINTS = 1000
#: Stretches of a phase at least this wide, as a part of the axis, are labelled.
_LABELLED_SHARE = 0.07
#: Room for the name of the capacity, in pixels.
_RIGHT_MARGIN = 92


def plot_memory(forecast: Forecast) -> Figure:
    """Memory held over the step by category, with capacity and peak."""
    timelines = forecast.memory.timeline_bytes_by_category
    order = _stack_order(timelines)
    colours = {_words(name): CATEGORY_COLOURS.get(name, GREY) for name in order}
    return _plot_stack(forecast, {_words(name): timelines[name] for name in order}, colours)


def plot_memory_by_module(forecast: Forecast) -> Figure:
    """Memory held over the step by group of modules, with capacity and peak.

    What stays is at the bottom, what has no module of its own at the top.
    """
    timelines = forecast.memory.timeline_bytes_by_module
    places = {"(optimizer)": -1, "(other modules)": 1, "(model)": 2}
    order = sorted(timelines, key=lambda name: places.get(name, 0))
    return _plot_stack(forecast, {name: timelines[name] for name in order}, _module_colours(order))


def _plot_stack(
    forecast: Forecast, timelines: Mapping[str, Sequence[int]], colours: Mapping[str, str]
) -> Figure:
    from plotly import graph_objects as go

    memory = forecast.memory
    axis = _Axis.of(forecast)
    figure = go.Figure()
    for name, values in timelines.items():
        figure.add_scatter(
            x=[axis.starts[i] if i < len(axis.starts) else 0.0 for i in axis.kept],
            y=[values[i] / axis.size for i in axis.kept],
            name=escape(name),
            stackgroup="memory",
            mode="lines",
            line={"width": 0, "shape": "hv", "color": colours[name]},
            fillcolor=colours[name],
            text=[format_bytes(values[i]) for i in axis.kept],
            hovertemplate="%{text}",
        )
    top = _mark_capacity(figure, memory.capacity_bytes, memory.peak_bytes, axis.size)
    if 0 <= memory.peak_node < len(axis.starts):
        _mark_phases(figure, memory, axis)
        _mark_peak(figure, memory, axis)
    if axis.is_timed:
        figure.update_xaxes(title="time in the step", tickformat="~s", ticksuffix="s", hoverformat=".4~s")
    else:
        figure.update_xaxes(title="operation of the step, in program order")
    figure.update_xaxes(range=[0, axis.end], showgrid=False)
    figure.update_yaxes(title=f"memory ({axis.unit})", range=[0, 1.3 * top / axis.size])
    return finish(figure, height=430, legend=True).update_layout(
        hovermode="x unified",
        legend={"orientation": "h", "y": -0.22, "yanchor": "top", "traceorder": "normal"},
        margin={"t": 26, "r": _RIGHT_MARGIN},
    )


@dataclass(frozen=True)
class _Axis:
    """Where each node stands: in seconds, or in program order if the nodes have no times."""

    starts: list[float]
    end: float
    kept: list[int]
    is_timed: bool
    unit: str
    size: int

    @classmethod
    def of(cls, forecast: Forecast) -> _Axis:
        memory = forecast.memory
        is_timed = not math.isnan(forecast.step_seconds)
        widths = forecast.node_seconds if is_timed else [1.0] * len(forecast.node_seconds)
        starts, clock = [], 0.0
        for width in widths:
            starts.append(clock)
            clock += width
        unit, size = unit_of(memory.peak_bytes)
        kept = downsample_indices(memory.timeline_bytes, MAX_PLOTTED_POINTS, memory.peak_node)
        return cls(starts, clock or 1.0, kept, is_timed, unit, size)


def unit_of(num_bytes: int) -> tuple[str, int]:
    """Name and size of the unit for an axis that reaches so far."""
    return ("GiB", GIB) if num_bytes >= GIB else ("MiB", MIB)


def _mark_capacity(
    figure: Figure, capacity_bytes: int, peak_bytes: int, size: int, name: str = "capacity"
) -> int:
    """A line at the device's memory where it is near; the highest value that is shown."""
    if capacity_bytes > 3 * peak_bytes:
        return peak_bytes
    _draw_capacity(figure, capacity_bytes, size, name)
    return max(peak_bytes, capacity_bytes)


def _draw_capacity(figure: Figure, capacity_bytes: int, size: int, name: str) -> None:
    """A dashed line that reads on any colour, its name beside the plot."""
    for line in ({"color": "rgba(255,255,255,0.85)", "width": 5}, {"dash": "dash", "color": RED, "width": 2}):
        figure.add_hline(y=capacity_bytes / size, line=line)
    figure.add_annotation(
        x=1.01,
        xref="paper",
        xanchor="left",
        y=capacity_bytes / size,
        text=f"{name}<br>{format_bytes(capacity_bytes)}",
        align="left",
        showarrow=False,
        font={"size": 12},
    )


def _mark_phases(figure: Figure, memory: MemoryForecast, axis: _Axis) -> None:
    """A line where a phase begins, and its name above where there is room."""
    bounds = [*(axis.starts[node] for _, node in memory.phase_starts), axis.end]
    for (phase, _), start, end in zip(memory.phase_starts, bounds, bounds[1:], strict=False):
        if start > 0:
            figure.add_vline(x=start, line={"color": LINE, "width": 1.5})
        is_last = end == axis.end
        if end - start >= _LABELLED_SHARE * axis.end or is_last:
            figure.add_annotation(
                x=end if is_last else start,
                y=1,
                yref="paper",
                yanchor="bottom",
                xanchor="right" if is_last else "left",
                text=escape(phase),
                showarrow=False,
                font={"color": INK, "size": 12},
            )


def _mark_peak(figure: Figure, memory: MemoryForecast, axis: _Axis) -> None:
    """The peak by its size and operation; the label keeps clear of a capacity that is little higher."""
    place = axis.starts[memory.peak_node]
    is_late = place > 0.5 * axis.end
    is_close = memory.peak_bytes <= memory.capacity_bytes < 1.4 * memory.peak_bytes
    height = {"ay": 1.08 * memory.capacity_bytes / axis.size, "ayref": "y"} if is_close else {"ay": -26}
    figure.add_annotation(
        x=place,
        y=memory.peak_bytes / axis.size,
        text=f"<b>peak {format_bytes(memory.peak_bytes)}</b><br>{escape(memory.peak_operation)}",
        hovertext=escape(f"{memory.peak_module or 'model'}, {memory.peak_phase}"),
        arrowcolor=INK,
        arrowwidth=1,
        ax=-20 if is_late else 20,
        **height,
        yanchor="bottom" if is_close else "auto",
        xanchor="right" if is_late else "left",
        align="right" if is_late else "left",
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _stack_order(timelines: Mapping[str, Sequence[int]]) -> list[str]:
    """Categories that hold something, steady ones at the bottom."""
    known = [category for category in CATEGORY_COLOURS if category in timelines]
    return [c for c in [*known, *sorted(set(timelines) - set(known))] if any(timelines[c])]


def _module_colours(names: Sequence[str]) -> dict[str, str]:
    """Ranges of layers in shades of one colour, the others in colours of their own."""
    layers = [name for name in names if name.rpartition(".")[2][:1].isdigit()]
    fixed = {"(optimizer)": PURPLE, "(model)": "#b9a88f", "(other modules)": GREY}
    others = [name for name in names if name not in layers and name not in fixed]
    steps = len(LAYER_COLOURS) - 1
    shades = {
        name: LAYER_COLOURS[round(i * steps / max(len(layers) - 1, 1))] for i, name in enumerate(layers)
    }
    turns = {name: MODULE_COLOURS[i % len(MODULE_COLOURS)] for i, name in enumerate(others)}
    return shades | turns | {name: colour for name, colour in fixed.items() if name in names}


def plot_reserved(reserved: ReservedMemory, capacity_bytes: int) -> Figure:
    """What the allocator holds over the first steps, and how much of it tensors use."""
    from plotly import graph_objects as go

    unit, size = unit_of(reserved.peak_bytes)
    kept = downsample_indices(reserved.reserved_bytes, MAX_PLOTTED_POINTS, 0)
    figure = go.Figure()
    for name, values, colour in (
        ("reserved", reserved.reserved_bytes, GREY),
        ("allocated", reserved.allocated_bytes, BLUE),
    ):
        figure.add_scatter(
            x=kept,
            y=[values[i] / size for i in kept],
            name=name,
            mode="lines",
            fill="tozeroy",
            line={"width": 1.5, "shape": "hv", "color": colour},
            text=[format_bytes(values[i]) for i in kept],
            hovertemplate="%{text}",
        )
    available = max(capacity_bytes - reserved.context_bytes, 0)
    top = _mark_capacity(figure, available, reserved.peak_bytes, size, "capacity less<br>the context")
    for step, start in enumerate(reserved.step_starts, 1):
        figure.add_vline(x=start, line={"color": LINE, "width": 1.5})
        figure.add_annotation(
            x=start, y=1, yref="paper", yanchor="bottom", xanchor="left", text=f"step {step}",
            showarrow=False, font={"color": INK, "size": 12},
        )  # fmt: skip
    figure.update_xaxes(title="request of the allocator", showgrid=False)
    figure.update_yaxes(title=f"memory ({unit})", range=[0, 1.2 * top / size])
    return finish(figure, height=360, legend=True).update_layout(
        hovermode="x unified",
        legend={"orientation": "h", "y": -0.26, "yanchor": "top"},
        margin={"t": 26, "r": _RIGHT_MARGIN},
    )


def plot_largest(largest: Largest) -> Figure:
    """What each size that was captured needs, the device's memory, and the answer."""
    from plotly import graph_objects as go

    probes = sorted(largest.probes, key=lambda probe: probe.size)
    most = max((probe.needed_bytes for probe in probes), default=0)
    unit, size = unit_of(max(most, largest.capacity_bytes))
    what = largest.quantity.replace("_", " ")
    figure = go.Figure(
        go.Scatter(
            x=[probe.size for probe in probes],
            y=[probe.needed_bytes / size for probe in probes],
            mode="lines+markers",
            line={"color": INK, "width": 1.5, "dash": "dot"},
            marker={"size": 11, "color": [GREEN if probe.fits else RED for probe in probes]},
            text=[
                f"{what} {probe.size}: {format_bytes(probe.needed_bytes)}, "
                f"{'fits' if probe.fits else 'does not fit'}"
                for probe in probes
            ],
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
    )
    _draw_capacity(figure, largest.capacity_bytes, size, "capacity")
    answer = next((probe for probe in probes if probe.size == largest.value), None)
    if answer is not None:
        figure.add_annotation(
            x=answer.size,
            y=answer.needed_bytes / size,
            text=f"<b>{answer.size}</b>",
            arrowcolor=INK,
            ax=-24,
            ay=34,
        )
    figure.update_xaxes(title=what)
    figure.update_yaxes(title=f"memory ({unit})", rangemode="tozero")
    return finish(figure, height=320).update_layout(margin={"r": _RIGHT_MARGIN})
