"""Between which operations of a step the largest tensors live."""

from __future__ import annotations

from perfcast.core.forecast.device import Forecast, TensorInterval
from perfcast.report import palette
from perfcast.report.document import words
from perfcast.report.documents.memory.curves import StepAxis
from perfcast.report.figure import Axis, Bars, Figure, Rule
from perfcast.units import format_bytes

#: Tensors that are drawn, of those that take most room for most of the step.
MAX_TENSORS = 36
_ROW_PIXELS = 18
_MOST_LETTERS = 30


def intervals_figure(forecast: Forecast) -> Figure:
    """A bar for each tensor that takes most, by size and by how long it lives, coloured by category.

    What is there before the step and stays is left out.
    """
    memory, axis = forecast.memory, StepAxis.of(forecast)
    made = [one for one in memory.intervals if one.created_by >= 0 or one.freed_after < len(axis.starts) - 1]
    largest = sorted(made, key=lambda one: -one.num_bytes * (one.freed_after - one.created_by))[:MAX_TENSORS]
    shown = sorted(largest, key=lambda one: (one.created_by, one.freed_after))
    categories = [name for name in palette.CATEGORIES if any(one.category == name for one in shown)]
    series = []
    for category in categories:
        mine = [(at, one) for at, one in enumerate(shown) if one.category == category]
        ends = [_ends(one, axis) for _, one in mine]
        series.append(
            Bars(
                name=words(category),
                labels=tuple(at for at, _ in mine),
                base=tuple(start for start, _ in ends),
                values=tuple(end - start for start, end in ends),
                colours=palette.CATEGORIES[category],
                hovers=tuple(_describe(one) for _, one in mine),
            )
        )
    peak = axis.starts[memory.peak_node] if 0 <= memory.peak_node < len(axis.starts) else None
    title = "time in the step" if axis.is_timed else "operation of the step, in program order"
    return Figure(
        name="intervals",
        series=tuple(series),
        is_horizontal=True,
        height=100 + _ROW_PIXELS * len(shown),
        legend="above",
        rules=() if peak is None else (Rule(x=peak, label="peak", is_alarm=True),),
        x=Axis(title=title, unit="s" if axis.is_timed else "", low=0, high=axis.end),
        y=Axis(
            ticks=tuple((at, _label(one)) for at, one in enumerate(shown)), is_reversed=True, has_grid=False
        ),
    )


def _ends(one: TensorInterval, axis: StepAxis) -> tuple[float, float]:
    """Where on the axis it is made and freed."""
    start = axis.starts[one.created_by] if one.created_by >= 0 else 0.0
    after = one.freed_after + 1
    return start, axis.starts[after] if after < len(axis.starts) else axis.end


def _label(one: TensorInterval) -> str:
    module = one.created_by_module or one.created_by_name
    short = module if len(module) <= _MOST_LETTERS else "…" + module[1 - _MOST_LETTERS :]
    return f"{short} {format_bytes(one.num_bytes)}"


def _describe(one: TensorInterval) -> str:
    made = one.created_by_name or "before the step"
    where = f" of {one.created_by_module}" if one.created_by_module else ""
    line = f"\n{one.created_at}" if one.created_at else ""
    made_by = f"made by {made}{where}, node {one.created_by}"
    freed = f"last used by node {one.last_used_by}, freed after {one.freed_after}"
    return f"{format_bytes(one.num_bytes)}, {words(one.category)}\n{made_by}\n{freed}{line}"
