"""Axes of figures for plotly: units, ranges, ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from perfcast.report.figure import Axis, Bars, Coordinate, Curve, Figure, Series
from perfcast.report.palette import LINE
from perfcast.units import DAY, GIB, MIB

#: What values are divided by, and the unit that they then have.
_SCALES = {float(GIB): "GiB", float(MIB): "MiB", DAY: "days"}


def axis_layout(figure: Figure, which: str, scale: float) -> dict[str, Any]:
    """What plotly is told of an axis, 'x' or 'y', whose values are divided by ``scale``."""
    axis = _axis_of(figure, which)
    found: dict[str, Any] = {
        "gridcolor": LINE,
        "linecolor": LINE,
        "zerolinecolor": LINE,
        "automargin": True,
        "showgrid": axis.has_grid,
        "visible": axis.is_visible,
    }
    if axis.scale != "linear":
        found["type"] = axis.scale
    unit = _SCALES.get(scale, "")
    title = f"{axis.title} ({unit})".strip() if axis.title and unit else axis.title or unit
    if title:
        found["title"] = {"text": text_lines(title)}
    found |= _number_format(axis, scale)
    if axis.ticks:
        found |= {
            "tickvals": [place / scale for place, _ in axis.ticks],
            "ticktext": [text_lines(text) for _, text in axis.ticks],
        }
    elif axis.scale == "log":
        found |= {"dtick": _log_step(_numbers(figure, which))}
    return found | _range(axis, scale)


def axis_scale(figure: Figure, which: str) -> float:
    """What values on an axis are divided by, so that bytes and long times have a unit that can be read."""
    axis = _axis_of(figure, which)
    if axis.unit == "duration":
        return DAY
    if axis.unit != "B" or axis.scale == "log":
        return 1.0
    most = max([axis.high or 0.0, *_numbers(figure, which)])
    return float(GIB) if most >= GIB else float(MIB)


def _number_format(axis: Axis, scale: float) -> dict[str, Any]:
    """How numbers beside an axis, and of points on it, are written."""
    if axis.unit == "share":
        return {"tickformat": ".0%", "hoverformat": ".1%"}
    if not axis.unit:
        return {"exponentformat": "power"} if axis.scale == "log" else {}
    if scale != 1.0:
        return {}
    found: dict[str, Any] = {"tickformat": "~s", "hoverformat": ".4~s", "nticks": 6}
    return found if axis.unit == "count" else found | {"ticksuffix": axis.unit}


def _log_step(values: Sequence[float]) -> int | str:
    """Powers of ten, with 2 and 5 of each where there are few."""
    known = [value for value in values if value > 0]
    return "D2" if not known or max(known) < 100 * min(known) else 1


def _range(axis: Axis, scale: float) -> dict[str, Any]:
    if axis.low is not None and axis.high is not None:
        ends = [axis.low / scale, axis.high / scale]
        if axis.scale == "log":
            ends = [math.log10(end) for end in ends]
        return {"range": ends[::-1] if axis.is_reversed else ends}
    if axis.is_reversed:
        return {"autorange": "reversed"}
    return {"rangemode": "tozero"} if axis.from_zero else {}


def _axis_of(figure: Figure, which: str) -> Axis:
    return figure.x if which == "x" else figure.y


def _numbers(figure: Figure, which: str) -> list[float]:
    """All values on an axis."""
    return [
        float(value)
        for series in figure.series
        for value in _values(figure, series, which)
        if isinstance(value, (int, float))
    ]


def _values(figure: Figure, series: Series, which: str) -> Sequence[Coordinate]:
    if isinstance(series, Curve):
        return series.x if which == "x" else series.y
    if isinstance(series, Bars):
        return series.values if figure.is_horizontal == (which == "x") else ()
    return ()


def text_lines(text: str) -> str:
    """Plain text as plotly reads it."""
    return escape(text).replace("\n", "<br>")
