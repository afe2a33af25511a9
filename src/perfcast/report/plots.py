"""Figures for plotly, which lets them be zoomed: the one place that knows it.

``plotly_dict`` is plain data, for whatever holds plotly.js; ``draw`` is an object of the Python library. Text
of figures is escaped here, since plotly reads a subset of HTML in labels. The look is that of a page on white
or dark grounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from perfcast.report.figure import (
    Bars,
    Coordinate,
    Curve,
    Figure,
    Heatmap,
    Label,
    Parallel,
    Rule,
    Segment,
    Treemap,
)
from perfcast.report.palette import BLUE, INK, LINE, RED
from perfcast.report.plot_axes import axis_layout, axis_scale, text_lines
from perfcast.report.plot_parallel import parallel_layout, parallel_traces

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

#: Letters on a coloured bar.
_DARK_INK = "#0d1117"
_BELOW_LEGEND = 90
#: Markers whose area means something, in pixels across for all of it.
_LARGEST_MARKER = 60


def plotly_dict(figure: Figure) -> dict[str, Any]:
    """A figure as plotly.js takes it: 'data' (traces) and 'layout', in plain lists, dicts and numbers."""
    scales = (axis_scale(figure, "x"), axis_scale(figure, "y"))
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for rule in figure.rules:
        shapes += _rule_lines(rule, scales)
        notes += _rule_note(figure, rule, scales)
    layout = {
        **_look(figure),
        "xaxis": axis_layout(figure, "x", scales[0]),
        "yaxis": axis_layout(figure, "y", scales[1]),
        "shapes": shapes + [_segment_line(segment) for segment in figure.segments],
        "annotations": notes + [_annotation(label, scales) for label in figure.labels],
    }
    traces: list[dict[str, Any]] = []
    for series in figure.series:
        if isinstance(series, Parallel):
            traces += parallel_traces(series)
            layout |= parallel_layout(series)
        else:
            traces.append(_trace(figure, series, scales))
    return {"data": traces, "layout": layout}


def draw(figure: Figure) -> PlotlyFigure:
    """A figure as an object of plotly's Python library."""
    from plotly import graph_objects as go

    drawn = go.Figure(plotly_dict(figure))
    drawn.update_layout(template="none")
    return drawn


def _look(figure: Figure) -> dict[str, Any]:
    below = figure.legend == "below"
    place = (
        {"y": -_BELOW_LEGEND / figure.height, "yanchor": "top"} if below else {"y": 1.02, "yanchor": "bottom"}
    )
    has_names = any(label.y is None for label in figure.labels)
    found: dict[str, Any] = {
        "height": figure.height,
        "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "margin": {"l": 8, "r": figure.right_margin, "b": 8, "t": _top(figure, has_names)},
        "showlegend": bool(figure.legend),
        "legend": {"orientation": "h", "x": 0, "itemsizing": "constant", "traceorder": "normal", **place},
        "barcornerradius": 0 if figure.is_stacked else 3,
        "barmode": "stack" if figure.is_stacked else "group" if figure.is_grouped else "overlay",
    }
    if figure.is_stacked or figure.is_grouped:
        found["bargap"] = 0.25
    if figure.hovers_by_x:
        found["hovermode"] = "x unified"
    if any(isinstance(series, Treemap) for series in figure.series):
        found["margin"] = {"l": 4, "r": 4, "t": 30, "b": 4}
        found["uniformtext"] = {"minsize": 10, "mode": "hide"}
    return found


def _top(figure: Figure, has_names: bool) -> int:
    if figure.legend == "above":
        return 60 if len(figure.series) > 4 else 40
    return 26 if has_names else 12


def _trace(
    figure: Figure, series: Bars | Curve | Heatmap | Treemap, scales: tuple[float, float]
) -> dict[str, Any]:
    match series:
        case Bars():
            return _bars(figure, series, scales)
        case Curve():
            return _curve(series, scales)
        case Heatmap():
            return _heatmap(series)
        case Treemap():
            return _treemap(series)


def _bars(figure: Figure, bars: Bars, scales: tuple[float, float]) -> dict[str, Any]:
    scale = scales[0] if figure.is_horizontal else scales[1]
    labels = [text_lines(label) if isinstance(label, str) else label for label in bars.labels]
    values = [None if value is None else value / scale for value in bars.values]
    found: dict[str, Any] = (
        {"x": values, "y": labels, "orientation": "h"} if figure.is_horizontal else {"x": labels, "y": values}
    )
    if bars.texts and not figure.is_stacked:
        found |= {
            "text": [text_lines(text) for text in bars.texts],
            "textposition": "auto",
            "constraintext": "none",
            "insidetextanchor": "end",
            "insidetextfont": {"color": _DARK_INK},
            "textangle": 0,
            "cliponaxis": False,
        }
    if bars.base:
        found["base"] = [start / scale for start in bars.base]
    return dict(
        type="bar",
        **found,
        name=text_lines(bars.name),
        marker={"color": _colours(bars.colours)},
        **_hover(bars.hovers),
    )


def _curve(curve: Curve, scales: tuple[float, float]) -> dict[str, Any]:
    found: dict[str, Any] = {"x": _scaled(curve.x, scales[0]), "y": _scaled(curve.y, scales[1])}
    line: dict[str, Any] = {"width": curve.width, "dash": curve.dash}
    if None in curve.x:
        line["simplify"] = False  # or short pieces between gaps are left out
    if isinstance(curve.colour, str):
        line["color"] = curve.colour
    if curve.is_step:
        line["shape"] = "hv"
    if "markers" in curve.mode:
        found["marker"] = _marker(curve)
    if curve.mode == "text":
        found |= {"text": [text_lines(text) for text in curve.texts], "textposition": curve.text_place}
    if curve.errors:
        found["error_x"] = {
            "type": "data",
            "symmetric": False,
            "color": INK,
            "thickness": 1.2,
            "width": 4,
            "array": [high - float(x or 0) for (_, high), x in zip(curve.errors, curve.x, strict=True)],
            "arrayminus": [float(x or 0) - low for (low, _), x in zip(curve.errors, curve.x, strict=True)],
        }
    hover = {} if curve.hovers_values else _hover(curve.hovers)
    return dict(
        type="scatter",
        **found,
        **_fill(curve),
        **hover,
        mode=curve.mode,
        name=text_lines(curve.name),
        line=line,
        opacity=curve.opacity,
        legendgroup=curve.group or None,
        showlegend=curve.in_legend and bool(curve.name),
    )


def _marker(curve: Curve) -> dict[str, Any]:
    found: dict[str, Any] = {"color": _colours(curve.colour), "symbol": _colours(curve.symbols)}
    if not curve.areas:
        return found | {"size": list(curve.sizes) if isinstance(curve.sizes, tuple) else curve.sizes}
    return found | {
        "size": [max(area, 0.001) for area in curve.areas],
        "sizemode": "area",
        "sizeref": 1 / _LARGEST_MARKER**2,
        "sizemin": 3,
        "line": {"width": 1, "color": "rgba(255,255,255,0.6)"},
    }


def _fill(curve: Curve) -> dict[str, Any]:
    if not curve.fills:
        return {}
    colour = {"fillcolor": curve.fill_colour or curve.colour}
    if curve.fills == "stacked":
        return {"stackgroup": "all", **colour}
    if curve.fills == "to_zero":
        return {"fill": "tozeroy"} | ({"fillcolor": curve.fill_colour} if curve.fill_colour else {})
    return {"fill": "tonexty", **colour}


def _heatmap(heat: Heatmap) -> dict[str, Any]:
    found: dict[str, Any] = {"z": [list(row) for row in heat.values]}
    if heat.columns:
        found |= {
            "x": [text_lines(name) for name in heat.columns],
            "y": [text_lines(name) for name in heat.rows],
        }
    else:
        found |= {"x0": heat.width / 2, "dx": heat.width, "y0": 0, "dy": 1}
    if heat.bar_ticks:
        found["colorbar"] = {
            "title": {"text": text_lines(heat.bar_title)},
            "tickvals": [value for value, _ in heat.bar_ticks],
            "ticktext": [text for _, text in heat.bar_ticks],
        }
    if heat.hovers:
        found["customdata"] = [[text_lines(text) for text in row] for row in heat.hovers]
        found["hovertemplate"] = "%{customdata}<extra></extra>"
    else:
        found["hoverinfo"] = "skip"
    return dict(
        type="heatmap",
        **found,
        zmin=heat.low,
        zmax=heat.high,
        ygap=heat.gap,
        showscale=bool(heat.bar_ticks),
        colorscale=[[place, colour] for place, colour in heat.colours],
    )


def _treemap(tree: Treemap) -> dict[str, Any]:
    return dict(
        type="treemap",
        ids=[f"m.{name}" for name in tree.ids],
        parents=[
            "" if not name else f"m.{parent}" for name, parent in zip(tree.ids, tree.parents, strict=True)
        ],
        labels=[text_lines(label) for label in tree.labels],
        values=list(tree.values),
        text=[text_lines(text) for text in tree.texts],
        **_hover(tree.hovers),
        branchvalues="total",
        textinfo="label+text",
        maxdepth=tree.depth,
        tiling={"pad": 2},
        marker={
            "colorscale": [[0, "#dbe8f5"], [1, BLUE]],
            "cornerradius": 3,
            "line": {"width": 0},
            **({"colors": [colour or LINE for colour in tree.colours]} if tree.colours else {}),
        },
        pathbar={"thickness": 24},
        root={"color": "rgba(128,140,156,0.15)"},
    )


def _rule_lines(rule: Rule, scales: tuple[float, float]) -> list[dict[str, Any]]:
    where: dict[str, Any]
    if rule.x is not None:
        at = rule.x / scales[0]
        where = {"x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "y domain"}
    else:
        at = (rule.y or 0.0) / scales[1]
        where = {"x0": 0, "x1": 1, "xref": "x domain", "y0": at, "y1": at}
    looks: list[dict[str, Any]] = [{"color": LINE, "width": 1.5}]
    if rule.is_alarm:
        looks = [{"dash": "dash", "color": RED, "width": 2}]
    return [{"type": "line", "line": look, **where} for look in looks]


def _rule_note(figure: Figure, rule: Rule, scales: tuple[float, float]) -> list[dict[str, Any]]:
    if not rule.label:
        return []
    is_upright = rule.x is not None
    at = (rule.x or 0.0) / scales[0] if is_upright else (rule.y or 0.0) / scales[1]
    note: dict[str, Any] = {"text": text_lines(rule.label), "showarrow": False, "font": {"size": 12}}
    axis = figure.x if is_upright else figure.y
    at = math.log10(at) if axis.scale == "log" else at
    if rule.place == "beside":
        return [note | {"x": 1.01, "xref": "paper", "xanchor": "left", "y": at, "align": "left"}]
    if is_upright:
        return [note | {"x": at, "y": 0, "yref": "paper", "yanchor": "bottom", "xanchor": "left"}]
    return [note | {"x": 1, "xref": "paper", "xanchor": "right", "y": at, "yanchor": "bottom"}]


def _segment_line(segment: Segment) -> dict[str, Any]:
    (x0, x1), (y0, y1) = segment.x, segment.y
    return {"type": "line", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "line": {"color": INK, "width": 1}}


def _annotation(label: Label, scales: tuple[float, float]) -> dict[str, Any]:
    text = (
        f"<b>{text_lines(label.bold)}</b>" + ("<br>" if label.text else "") if label.bold else ""
    ) + text_lines(label.text)
    found: dict[str, Any] = {
        "x": label.x / scales[0],
        "text": text,
        "xanchor": label.anchor,
        "align": label.anchor,
        "showarrow": False,
        "font": {"size": 12},
    }
    if label.y is None:
        found |= {"y": 1, "yref": "paper", "yanchor": "bottom"}
    else:
        found["y"] = label.y / scales[1]
        if label.arrow is None and not label.is_boxed:
            found["yanchor"] = "bottom"
    if label.hover:
        found["hovertext"] = text_lines(label.hover)
    if label.arrow is not None:
        found |= {
            "showarrow": True,
            "arrowcolor": INK,
            "arrowwidth": 1,
            "ax": label.arrow[0],
            "ay": label.arrow[1],
        }
        if label.arrow_y is not None:
            found |= {"ay": label.arrow_y / scales[1], "ayref": "y", "yanchor": "bottom"}
    if label.is_boxed:
        found |= {"bgcolor": "rgba(128,140,156,0.3)", "borderpad": 1, "xshift": 3, "font": {"size": 11}}
    return found


def _hover(hovers: Iterable[str]) -> dict[str, Any]:
    texts = [_hover_lines(text) for text in hovers]
    if not texts:
        return {"hoverinfo": "skip"}
    return {"customdata": texts, "hovertemplate": "%{customdata}<extra></extra>"}


def _scaled(values: Sequence[Coordinate], scale: float) -> list[Coordinate]:
    if scale == 1.0:
        return [text_lines(value) if isinstance(value, str) else value for value in values]
    return [value / scale if isinstance(value, (int, float)) else value for value in values]


def _colours(colours: str | tuple[str, ...]) -> str | list[str]:
    return colours if isinstance(colours, str) else list(colours)


def _hover_lines(text: str) -> str:
    """The first of several lines stands out."""
    first, *rest = escape(text).split("\n")
    return "<br>".join([f"<b>{first}</b>", *filter(None, rest)]) if rest else first
