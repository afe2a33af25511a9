"""A figure as SVG of a given width."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfcast.report.figure import Bars, Curve, Figure, Heatmap, Parallel, Treemap
from perfcast.report.palette import INK
from perfcast.report.svg.axes import (
    Bottom,
    Projection,
    axis_title,
    draw_bottom,
    draw_grid,
    draw_left,
    plan_bottom,
    project,
    ticks_of,
)
from perfcast.report.svg.bars import draw_bars
from perfcast.report.svg.canvas import Canvas, Tips
from perfcast.report.svg.curves import CurveDrawer
from perfcast.report.svg.heat import bar_room, draw_heatmap
from perfcast.report.svg.labels import STRIP, beside_room, draw_labels, draw_rules, needs_strip
from perfcast.report.svg.legend import Legend, draw_legend, plan_legend
from perfcast.report.svg.parallel import draw_parallel, parallel_height
from perfcast.report.svg.strips import draw_strips
from perfcast.report.svg.text import Box, cut_text, text_width
from perfcast.report.svg.treemap import draw_treemap

#: Of a page, and of a telephone.
WIDE, NARROW = 1000.0, 360.0
_GAP, _TITLE = 8.0, 24.0
#: The most of the width that names beside bars may take; longer ones stand above their bars.
_MOST_LEFT = 0.36
_LABEL_ROOM = 17.0
#: Widths at which markers are as large as asked for.
_FULL_MARKERS = 700.0


def svg_of(figure: Figure, width: float = WIDE, *, tips: Tips | None = None) -> str:
    """A figure as an ``<svg>`` element that needs nothing else.

    Args:
        width: In pixels; texts are as large on a narrow figure as on a wide one, and it may be higher.
        tips: Where texts that pointing shows are collected, for a page's script; None writes them into the
            elements as titles, which browsers show.
    """
    canvas = Canvas(tips)
    only = figure.series[0] if figure.series else None
    if isinstance(only, Treemap):
        height = float(figure.height)
        draw_treemap(canvas, only, Box(1, 1, width - 1, height - 1))
    elif isinstance(only, Parallel):
        height = parallel_height(only, width, figure.height)
        draw_parallel(canvas, only, width, height)
    else:
        height = _draw_plot(canvas, figure, width)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" font-size="12">{canvas}</svg>'
    )


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the parts of a plot are.

    Attributes:
        frame: The plot itself.
        label_room: Pixels above each bar for its name; 0 where names stand beside the plot.
    """

    frame: Box
    legend: Legend
    bottom: Bottom
    label_room: float
    height: float


def _draw_plot(canvas: Canvas, figure: Figure, width: float) -> float:
    layout = _lay_out(figure, width)
    frame = layout.frame
    x, y = _projections(figure, frame)
    marks = ticks_of(figure, x, "x"), ticks_of(figure, y, "y")
    above, below = figure.legend == "above", figure.legend == "below"
    draw_legend(
        canvas, layout.legend, 0.0 if above else layout.height - layout.legend.height if below else 0.0
    )
    title = axis_title(figure, "y") if figure.y.is_visible else ""
    if title:
        lift = STRIP if needs_strip(figure) else 0.0
        canvas.text(0, frame.top - 11 - lift, title, kind="soft")
    draw_grid(canvas, frame, x, y, marks)
    _draw_inside(canvas, figure, x, y, layout, width)
    if figure.x.is_visible:
        canvas.line((frame.left, frame.bottom), (frame.right, frame.bottom), INK, 0.7)
        canvas.open("g", {"class": "xticks"})
        draw_bottom(canvas, frame, x, layout.bottom, width)
        canvas.close("g")
        _draw_bottom_title(canvas, figure, layout, width)
    if layout.label_room:
        _draw_names(canvas, y, marks[1], width)
    else:
        draw_left(canvas, frame, y, marks[1], frame.left - _GAP)
    canvas.open("g", {"class": "notes"})
    draw_rules(canvas, figure, x, y, frame)
    draw_labels(canvas, figure, x, y, frame)
    canvas.close("g")
    for segment in figure.segments:
        canvas.line(
            (x.inside(segment.x[0]), y.inside(segment.y[0])),
            (x.inside(segment.x[1]), y.inside(segment.y[1])),
            INK,
        )
    return layout.height


def _draw_inside(
    canvas: Canvas, figure: Figure, x: Projection, y: Projection, layout: _Layout, width: float
) -> None:
    """The series and what pointing at them says, in a window that a page's script moves."""
    frame = layout.frame
    zooms = figure.zooms and canvas.tips is not None and figure.x.scale == "linear"
    if zooms:
        canvas.open("svg", _zoomed(x, frame))
        wide, high = frame.right - frame.left, frame.bottom - frame.top
        canvas.add("rect", x=frame.left, y=frame.top, width=wide, height=high, fill="transparent")
    _draw_series(canvas, figure, x, y, layout, width)
    if figure.hovers_by_x:
        draw_strips(canvas, figure, x, frame)
    if zooms:
        canvas.close("svg")


def _zoomed(x: Projection, frame: Box) -> dict[str, float | str]:
    """A window onto the plot that a page's script moves."""
    wide, high = frame.right - frame.left, frame.bottom - frame.top
    return {
        "class": "zoom",
        "x": f"{frame.left:.1f}",
        "y": f"{frame.top:.1f}",
        "width": f"{wide:.1f}",
        "height": f"{high:.1f}",
        "viewBox": f"{frame.left:.1f} {frame.top:.1f} {wide:.1f} {high:.1f}",
        "preserveAspectRatio": "none",
        "tabindex": 0,
        "data-low": repr(x.low),
        "data-high": repr(x.high),
        "data-unit": "s" if x.axis.unit == "s" else "",
    }


def _draw_bottom_title(canvas: Canvas, figure: Figure, layout: _Layout, width: float) -> None:
    title = axis_title(figure, "x")
    if title:
        frame = layout.frame
        where = frame.bottom + layout.bottom.height + 13
        text = cut_text(title, width - 4)
        half = text_width(text) / 2
        middle = min(max((frame.left + frame.right) / 2, half + 1), width - half - 1)
        canvas.text(middle, where, text, anchor="center", kind="soft")


def _projections(figure: Figure, frame: Box) -> tuple[Projection, Projection]:
    y = project(figure, "y", frame.bottom, frame.top)
    if figure.y.scale == "category":
        y = project(figure, "y", frame.top, frame.bottom) if figure.y.is_reversed else y
        if figure.y.is_reversed:
            y = Projection(y.axis, y.low, y.high, frame.top, frame.bottom, y.names)
    return project(figure, "x", frame.left, frame.right), y


def _lay_out(figure: Figure, width: float) -> _Layout:
    legend = plan_legend(figure, 0.0, width)
    top = 8.0 + (legend.height if figure.legend == "above" else 0.0)
    if figure.y.is_visible and axis_title(figure, "y"):
        top += _TITLE
    if needs_strip(figure):
        top += STRIP
    guess = Box(60.0, 0.0, width - 12, figure.height - 80.0)
    y_ticks = ticks_of(figure, _projections(figure, guess)[1], "y")
    left, label_room, height = _left_room(figure, [text for _, text in y_ticks], width)
    right = width - max(
        10.0, beside_room(figure), *(bar_room(s) for s in figure.series if isinstance(s, Heatmap))
    )
    x = project(figure, "x", left, right)
    x_ticks = ticks_of(figure, x, "x")
    if x_ticks and not figure.x.ticks and figure.x.scale != "category":
        right = min(right, width - text_width(x_ticks[-1][1]) / 2 - 2)
    bottom = plan_bottom(project(figure, "x", left, right), x_ticks)
    foot = bottom.height if figure.x.is_visible else 4.0
    if figure.x.is_visible and axis_title(figure, "x"):
        foot += _TITLE
    if figure.legend == "below":
        foot += legend.height + 4
    height = min(height, top + foot + _square(figure, right - left))
    end = height - foot
    least = top + 60
    if end < least:
        height, end = height + least - end, least
    return _Layout(Box(left, top, right, end), legend, bottom, label_room, height)


def _square(figure: Figure, width: float) -> float:
    """The height at which the cells of a matrix with names are as high as wide; no limit of others."""
    names = [s for s in figure.series if isinstance(s, Heatmap) and s.columns]
    return min((width * len(s.rows) / len(s.columns) for s in names), default=math.inf)


def _left_room(figure: Figure, texts: list[str], width: float) -> tuple[float, float, float]:
    """Pixels beside the plot, above each bar, and of the whole figure's height."""
    widest = max((text_width(text) for text in texts), default=0.0)
    height = float(figure.height)
    if not texts:
        return 6.0, 0.0, height
    is_named = figure.is_horizontal and any(isinstance(series, Bars) for series in figure.series)
    if is_named and widest > _MOST_LEFT * width:
        return 2.0, _LABEL_ROOM, height + (_LABEL_ROOM - 4) * len(texts)
    return min(widest, 0.5 * width) + _GAP + 2, 0.0, height


def _draw_names(canvas: Canvas, y: Projection, ticks: list[tuple[float, str]], width: float) -> None:
    """Names above their bars."""
    unit = abs(y.end - y.start) / max(len(ticks), 1)
    for place, text in ticks:
        at = y.at(place)
        if at is not None:
            shown = cut_text(text, width - 4)
            canvas.text(2, at - unit / 2 + 15, shown, tip="" if shown == text else text)


def _draw_series(
    canvas: Canvas, figure: Figure, x: Projection, y: Projection, layout: _Layout, width: float
) -> None:
    along, across = (x, y) if figure.is_horizontal else (y, x)
    for series in figure.series:
        if isinstance(series, Heatmap):
            draw_heatmap(canvas, series, x, y, layout.frame)
    draw_bars(canvas, figure, along, across, layout.frame, layout.label_room)
    curves = [series for series in figure.series if isinstance(series, Curve)]
    drawer = CurveDrawer(canvas, x, y, layout.frame, min(width / _FULL_MARKERS, 1.0))
    drawer.draw_all(curves, says_points=not figure.hovers_by_x)
