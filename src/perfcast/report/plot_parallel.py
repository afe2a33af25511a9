"""Parallel coordinates for plotly, drawn as plain lines.

Pages let no script be compiled, which plotly's own kind of this plot needs.
"""

from __future__ import annotations

from typing import Any

from perfcast.report.figure import Parallel, Strands
from perfcast.report.palette import INK
from perfcast.report.plot_axes import text_lines


def parallel_traces(parallel: Parallel) -> list[dict[str, Any]]:
    """A trace for each look, with gaps between its lines."""
    return [_trace(strands) for strands in parallel.strands]


def _trace(strands: Strands) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for line in strands.lines:
        x += [*range(len(line)), None]
        y += [*line, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": {"color": strands.colour, "width": strands.width},
        "opacity": strands.opacity,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def parallel_layout(parallel: Parallel) -> dict[str, Any]:
    """Axes as upright lines with their titles and ticks."""
    count = len(parallel.axes)
    note: dict[str, Any] = {"showarrow": False, "font": {"size": 12}, "yanchor": "bottom"}
    ground = {"bgcolor": "rgba(128,140,156,0.3)", "borderpad": 1, "xshift": 3, "font": {"size": 11}}
    names = [
        note | {"x": at, "y": 1.03, "text": f"<b>{text_lines(axis.title.replace('_', chr(10)))}</b>"}
        for at, axis in enumerate(parallel.axes)
    ]
    ticks = [
        {"showarrow": False, "x": at, "y": height, "text": text_lines(text), "xanchor": "left", **ground}
        for at, axis in enumerate(parallel.axes)
        for height, text in axis.ticks
    ]
    line = {"color": INK, "width": 1}
    return {
        "xaxis": {"visible": False, "range": [-0.15, count - 0.2]},
        "yaxis": {"visible": False, "range": [-0.06, 1.14]},
        "annotations": names + ticks,
        "shapes": [
            {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "line": line} for at in range(count)
        ],
    }
