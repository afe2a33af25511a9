"""Figures of memory: over a step by category and by module, of the allocator, and of each size tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.forecast.device import Forecast, MemoryForecast, ReservedMemory
from perfcast.core.forecast.largest import Largest
from perfcast.report import palette
from perfcast.report.answers import downsample_indices
from perfcast.report.document import words
from perfcast.report.figure import Axis, Curve, Figure, Label, Rule
from perfcast.units import format_bytes

MAX_POINTS = 1000
#: Stretches of a phase at least this wide, as a part of the axis, are labelled.
_LABELLED_SHARE = 0.07
#: Room for the name of the capacity, in pixels.
_RIGHT_MARGIN = 92
#: A capacity so many times the peak is not drawn: the curves would be flat.
_FAR = 3


def memory_figure(forecast: Forecast) -> Figure:
    """Memory held over the step by category, with capacity and peak."""
    timelines = forecast.memory.timeline_bytes_by_category
    order = _stack_order(timelines)
    colours = {words(name): palette.CATEGORIES.get(name, palette.GREY) for name in order}
    return _stack("memory", forecast, {words(name): timelines[name] for name in order}, colours)


def memory_by_module_figure(forecast: Forecast) -> Figure:
    """Memory held over the step by group of modules, with capacity and peak.

    What stays is at the bottom, what has no module of its own at the top.
    """
    timelines = forecast.memory.timeline_bytes_by_module
    places = {"(optimizer)": -1, "(other modules)": 1, "(model)": 2}
    order = sorted(timelines, key=lambda name: places.get(name, 0))
    return _stack("modules", forecast, {name: timelines[name] for name in order}, _module_colours(order))


def _stack(
    name: str, forecast: Forecast, timelines: Mapping[str, Sequence[int]], colours: Mapping[str, str]
) -> Figure:
    memory = forecast.memory
    axis = StepAxis.of(forecast)
    x = tuple(axis.starts[i] if i < len(axis.starts) else 0.0 for i in axis.kept)
    series = tuple(
        Curve(
            name=label,
            x=x,
            y=tuple(values[i] for i in axis.kept),
            colour=colours[label],
            width=0,
            is_step=True,
            fills="stacked",
            hovers=tuple(f"{label}: {format_bytes(values[i])}" for i in axis.kept),
        )
        for label, values in timelines.items()
    )
    is_near = memory.capacity_bytes <= _FAR * memory.peak_bytes
    top = max(memory.peak_bytes, memory.capacity_bytes) if is_near else memory.peak_bytes
    rules = [_capacity(memory.capacity_bytes, "capacity")] if is_near else []
    labels: list[Label] = []
    if 0 <= memory.peak_node < len(axis.starts):
        starts = [axis.starts[node] for _, node in memory.phase_starts]
        rules += [Rule(x=start) for start in starts if start > 0]
        labels = [*_phase_labels(memory, axis), _peak_label(memory, axis)]
    title = "time in the step" if axis.is_timed else "operation of the step, in program order"
    return Figure(
        name=name,
        series=series,
        height=430,
        legend="below",
        hovers_by_x=True,
        zooms=True,
        rules=tuple(rules),
        labels=tuple(labels),
        right_margin=_RIGHT_MARGIN,
        x=Axis(title=title, unit="s" if axis.is_timed else "", low=0, high=axis.end, has_grid=False),
        y=Axis(title="memory", unit="B", low=0, high=1.3 * top),
    )


@dataclass(frozen=True)
class StepAxis:
    """Where each node stands: in seconds, or in program order if the nodes have no times."""

    starts: list[float]
    end: float
    kept: list[int]
    is_timed: bool

    @classmethod
    def of(cls, forecast: Forecast) -> StepAxis:
        """Of a forecast, in seconds where it has any."""
        memory = forecast.memory
        is_timed = not math.isnan(forecast.step_seconds)
        widths = forecast.node_seconds if is_timed else [1.0] * len(forecast.node_seconds)
        starts, clock = [], 0.0
        for width in widths:
            starts.append(clock)
            clock += width
        kept = downsample_indices(memory.timeline_bytes, MAX_POINTS, memory.peak_node)
        return cls(starts, clock or 1.0, kept, is_timed)


def _capacity(capacity_bytes: int, name: str) -> Rule:
    label = f"{name}\n{format_bytes(capacity_bytes)}"
    return Rule(y=capacity_bytes, label=label, place="beside", is_alarm=True)


def _phase_labels(memory: MemoryForecast, axis: StepAxis) -> list[Label]:
    """The name of a phase above its begin, where there is room."""
    bounds = [*(axis.starts[node] for _, node in memory.phase_starts), axis.end]
    found = []
    for (phase, _), start, end in zip(memory.phase_starts, bounds, bounds[1:], strict=False):
        is_last = end == axis.end
        if is_last:
            found.append(Label(x=end, text=phase, anchor="right"))
        elif end - start >= _LABELLED_SHARE * axis.end:
            found.append(Label(x=start, text=phase))
    return found


def _peak_label(memory: MemoryForecast, axis: StepAxis) -> Label:
    """The peak by its size and operation; the label keeps clear of a capacity that is little higher."""
    place = axis.starts[memory.peak_node]
    is_late = place > 0.5 * axis.end
    is_close = memory.peak_bytes <= memory.capacity_bytes < 1.4 * memory.peak_bytes
    return Label(
        x=place,
        y=memory.peak_bytes,
        bold=f"peak {format_bytes(memory.peak_bytes)}",
        text=memory.peak_operation,
        hover=f"{memory.peak_module or 'model'}, {memory.peak_phase}",
        anchor="right" if is_late else "left",
        arrow=(-20 if is_late else 20, -26),
        arrow_y=1.08 * memory.capacity_bytes if is_close else None,
    )


def _stack_order(timelines: Mapping[str, Sequence[int]]) -> list[str]:
    """Categories that hold something, steady ones at the bottom."""
    known = [category for category in palette.CATEGORIES if category in timelines]
    return [c for c in [*known, *sorted(set(timelines) - set(known))] if any(timelines[c])]


def _module_colours(names: Sequence[str]) -> dict[str, str]:
    """Ranges of layers in shades of one colour, the others in colours of their own."""
    layers = [name for name in names if name.rpartition(".")[2][:1].isdigit()]
    fixed = {"(optimizer)": palette.PURPLE, "(model)": "#b9a88f", "(other modules)": palette.GREY}
    others = [name for name in names if name not in layers and name not in fixed]
    steps = len(palette.LAYERS) - 1
    shades = {
        name: palette.LAYERS[round(i * steps / max(len(layers) - 1, 1))] for i, name in enumerate(layers)
    }
    turns = {name: palette.MODULES[i % len(palette.MODULES)] for i, name in enumerate(others)}
    return shades | turns | {name: colour for name, colour in fixed.items() if name in names}


def reserved_figure(reserved: ReservedMemory, capacity_bytes: int) -> Figure:
    """What the allocator holds over the first steps, and how much of it tensors use."""
    kept = downsample_indices(reserved.reserved_bytes, MAX_POINTS, 0)
    series = tuple(
        Curve(
            name=name,
            x=tuple(kept),
            y=tuple(values[i] for i in kept),
            colour=colour,
            width=1.5,
            is_step=True,
            fills="to_zero",
            hovers=tuple(f"{name}: {format_bytes(values[i])}" for i in kept),
        )
        for name, values, colour in (
            ("reserved", reserved.reserved_bytes, palette.GREY),
            ("allocated", reserved.allocated_bytes, palette.BLUE),
        )
    )
    available = max(capacity_bytes - reserved.context_bytes, 0)
    is_near = available <= _FAR * reserved.peak_bytes
    rules = [_capacity(available, "capacity less\nthe context")] if is_near else []
    top = max(reserved.peak_bytes, available) if is_near else reserved.peak_bytes
    return Figure(
        name="reserved",
        series=series,
        height=360,
        legend="below",
        hovers_by_x=True,
        zooms=True,
        rules=(*rules, *(Rule(x=start) for start in reserved.step_starts)),
        labels=tuple(
            Label(x=start, text=f"step {step}") for step, start in enumerate(reserved.step_starts, 1)
        ),
        right_margin=_RIGHT_MARGIN,
        x=Axis(title="request of the allocator", has_grid=False),
        y=Axis(title="memory", unit="B", low=0, high=1.2 * top),
    )


def largest_figure(largest: Largest) -> Figure:
    """What each size that was captured needs, the device's memory, and the answer."""
    probes = sorted(largest.probes, key=lambda probe: probe.size)
    what = words(largest.quantity)
    sizes = tuple(probe.size for probe in probes)
    needs = tuple(probe.needed_bytes for probe in probes)
    line = Curve(x=sizes, y=needs, colour=palette.INK, width=1.5, dash="dot")
    markers = Curve(
        x=sizes,
        y=needs,
        mode="markers",
        sizes=11,
        colour=tuple(palette.GREEN if probe.fits else palette.RED for probe in probes),
        hovers=tuple(
            f"{what} {probe.size}: {format_bytes(probe.needed_bytes)}, "
            f"{'fits' if probe.fits else 'does not fit'}"
            for probe in probes
        ),
    )
    answers = [probe for probe in probes if probe.size == largest.value]
    return Figure(
        name="largest",
        series=(line, markers),
        height=320,
        right_margin=_RIGHT_MARGIN,
        rules=(_capacity(largest.capacity_bytes, "capacity"),),
        labels=tuple(
            Label(x=one.size, y=one.needed_bytes, bold=str(one.size), text="", arrow=(-24, 34))
            for one in answers
        ),
        x=Axis(title=what),
        y=Axis(title="memory", unit="B", from_zero=True),
    )
