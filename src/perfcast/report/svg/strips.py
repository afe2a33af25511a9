"""Upright strips over a plot: pointing at one says the values of all series there."""

from __future__ import annotations

from bisect import bisect_right

from perfcast.report.figure import Curve, Figure
from perfcast.report.svg.axes import Projection
from perfcast.report.svg.canvas import Canvas
from perfcast.report.svg.text import Box
from perfcast.report.ticks import prefixed

_MOST = 100


def draw_strips(canvas: Canvas, figure: Figure, x: Projection, frame: Box) -> None:
    """Equal strips, at most so many as there are different places."""
    curves = [
        series for series in figure.series if isinstance(series, Curve) and (series.hovers or series.name)
    ]
    places = sorted({float(v) for curve in curves for v in curve.x if isinstance(v, (int, float))})
    if not places:
        return
    count = min(_MOST, max(len(places), 2))
    wide = (frame.right - frame.left) / count
    low, high = x.at(places[0]), x.at(places[-1])
    if low is None or high is None:
        return
    for index in range(count):
        value = (
            x.low + (index + 0.5) / count * (x.high - x.low)
            if x.axis.scale == "linear"
            else places[min(int(index / count * len(places)), len(places) - 1)]
        )
        if value < places[0] and index and x.axis.scale == "linear":
            value = places[0]
        tip = _tip(figure, curves, value)
        if tip:
            canvas.add(
                "rect",
                tip,
                x=frame.left + index * wide,
                y=frame.top,
                width=wide,
                height=frame.bottom - frame.top,
                fill="transparent",
                class_="strip",
            )


def _tip(figure: Figure, curves: list[Curve], value: float) -> str:
    """The place, then what each series says at the last point that is not beyond it."""
    unit = figure.x.unit if figure.x.unit in ("s", "B") else ""
    lines = [prefixed(float(f"{value:.3g}"), unit)]
    for curve in curves:
        numbers = [float(v) if isinstance(v, (int, float)) else float("inf") for v in curve.x]
        at = max(bisect_right(numbers, value) - 1, 0)
        said = curve.hovers[at] if curve.hovers else ""
        if not said and curve.name and curve.hovers_values and curve.y[at] is not None:
            said = f"{curve.name}: {curve.y[at]}"
        if said:
            lines.append(said.replace("\n", ", "))
    return "\n".join(lines) if len(lines) > 1 else ""
