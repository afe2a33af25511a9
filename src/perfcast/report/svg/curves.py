"""Lines, areas, points and texts at points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypedDict

from perfcast.report.figure import Coordinate, Curve
from perfcast.report.svg.axes import Projection
from perfcast.report.svg.bars import error_bars
from perfcast.report.svg.canvas import Canvas, Point, path_of
from perfcast.report.svg.markers import draw_marker
from perfcast.report.svg.text import SIZE, Box, text_width

#: Pieces of a line a pixel: of more of them none could be pointed at.
_MOST_RUNS = 0.75
#: Across all of what the areas of markers share, in pixels, on a figure of usual width.
_LARGEST, _LEAST = 60.0, 3.0
#: Points that are nearer than this to one drawn before of their series are not seen.
_SAME, _MOST_SAME = 1.5, 2.5
_DASHES = {"solid": None, "dash": "6 4", "dot": "2 3"}
#: Of a line without markers, points that can be pointed at.
_MOST_TARGETS = 150
_OPAQUE = 0.999
#: Points of a long line; and how little a step is that is not seen, in pixels.
_LONG, _LEVEL = 300, 0.25


class _Look(TypedDict):
    """How a line is drawn."""

    stroke: str
    stroke_width: float
    stroke_dasharray: str | None
    opacity: float | None
    fill: str


_Indexed = tuple[int, float, float]


class CurveDrawer:
    """Draws the curves of a figure in order, since areas stand on those before.

    Attributes:
        markers: By how much markers are smaller than on a figure of usual width.
    """

    def __init__(
        self, canvas: Canvas, x: Projection, y: Projection, frame: Box, markers: float = 1.0
    ) -> None:
        self._canvas, self._x, self._y, self._frame = canvas, x, y, frame
        self._markers = markers
        self._heights: dict[int, dict[Coordinate, float]] = {}
        self._before: Curve | None = None

    def draw_all(self, curves: Sequence[Curve], *, says_points: bool) -> None:
        """All in order, but stacked areas from the highest on, each down to the ground over those above."""
        stacked = [curve for curve in curves if curve.fills == "stacked"]
        sums: dict[Coordinate, float] = {}
        for curve in stacked:
            for x, y in zip(curve.x, curve.y, strict=True):
                sums[x] = sums.get(x, 0.0) + (float(y) if isinstance(y, (int, float)) else 0.0)
            self._heights[id(curve)] = dict(sums)
        for curve in (*reversed(stacked), *(curve for curve in curves if curve.fills != "stacked")):
            self.draw(curve, says_points=says_points)

    def draw(self, curve: Curve, *, says_points: bool) -> None:
        """One curve.

        Args:
            says_points: Whether pointing at it says something; else strips over the figure do.
        """
        if curve.fills:
            self._fill(curve)
        if "lines" in curve.mode and curve.width > 0:
            self._lines(curve, says_points=says_points)
        for at, px, py in self._places(curve):
            if curve.errors:
                error_bars(self._canvas, self._x, py, curve.errors[at])
            if curve.mode == "text":
                self._write(curve, at, px, py)
        if "markers" in curve.mode:
            self._points(curve, says_points=says_points)
        self._before = curve

    def _places(self, curve: Curve) -> Iterator[_Indexed]:
        for at, (x, y) in enumerate(zip(curve.x, curve.y, strict=True)):
            px, py = self._x.at(x), self._y.at(y)
            if px is not None and py is not None:
                yield at, px, py

    def _runs(self, curve: Curve) -> list[list[_Indexed]]:
        """Points between gaps."""
        known = {at: (at, px, py) for at, px, py in self._places(curve)}
        groups = groupby(range(len(curve.x)), key=known.__contains__)
        return [[known[at] for at in group] for is_known, group in groups if is_known]

    def _lines(self, curve: Curve, *, says_points: bool) -> None:
        runs = [run for run in self._runs(curve) if len(run) > 1]
        colour = curve.colour if isinstance(curve.colour, str) else curve.colour[0]
        look: _Look = {
            "stroke": colour,
            "stroke_width": curve.width,
            "stroke_dasharray": _DASHES[curve.dash],
            "opacity": curve.opacity if curve.opacity < _OPAQUE else None,
            "fill": "none",
        }
        is_told = len(runs) < (self._frame.right - self._frame.left) * _MOST_RUNS
        if says_points and curve.hovers and len(runs) > 1 and is_told and "markers" not in curve.mode:
            for run in runs:
                tip = curve.hovers[run[0][0]]
                self._canvas.add("path", tip, **look, d=path_of([p[1:] for p in run]))
            return
        paths = [path_of(_thin(_stepped([p[1:] for p in run], curve.is_step))) for run in runs]
        if paths:
            self._canvas.add("path", d="".join(paths), **look, stroke_linejoin="round")
        if says_points and is_told and "markers" not in curve.mode:
            self._targets(curve, [point for run in runs for point in run])

    def _targets(self, curve: Curve, points: Sequence[_Indexed]) -> None:
        """Unseen points of a line that say what it is."""
        every = max(len(points) // _MOST_TARGETS, 1)
        for at, px, py in points[::every]:
            tip = self._tip(curve, at)
            if tip:
                self._canvas.add("circle", tip, cx=px, cy=py, r=7, fill="transparent")

    def _tip(self, curve: Curve, at: int) -> str:
        if curve.hovers:
            return curve.hovers[at]
        return curve.name if curve.hovers_values else ""

    def _fill(self, curve: Curve) -> None:
        top = [(px, py) for _, px, py in self._places(curve)]
        colour = curve.fill_colour or (curve.colour if isinstance(curve.colour, str) else curve.colour[0])
        if curve.fills == "stacked":
            top = self._stacked(curve)
            lower = [(px, self._frame.bottom) for px, _ in (top[:1] + top[-1:])]
        elif curve.fills == "to_previous" and self._before is not None:
            lower = [(px, py) for _, px, py in self._places(self._before)]
        else:
            floor = self._y.inside(0.0)
            lower = [(px, floor) for px, _ in top]
        if not top:
            return
        upper, under = (_thin(_stepped(side, curve.is_step)) for side in (top, lower))
        opacity = 0.35 if curve.fills == "to_zero" and not curve.fill_colour else None
        d = path_of([*upper, *reversed(under)], is_closed=True)
        self._canvas.add("path", d=d, fill=colour, opacity=opacity)

    def _stacked(self, curve: Curve) -> list[Point]:
        """The upper edge on all series that are below."""
        upper: list[Point] = []
        for x, y in zip(curve.x, curve.y, strict=True):
            px = self._x.at(x)
            if px is not None and isinstance(y, (int, float)):
                upper.append((px, self._y.inside(self._heights[id(curve)][x])))
        return upper

    def _points(self, curve: Curve, *, says_points: bool) -> None:
        attributes: dict[str, float | str] = {}
        if curve.opacity < _OPAQUE:
            attributes["opacity"] = curve.opacity
        is_plain = isinstance(curve.colour, str) and curve.symbols == "circle"
        if is_plain:
            attributes["fill"] = str(curve.colour)
        self._canvas.open("g", attributes)
        seen: set[tuple[int, int, str]] = set()
        for at, px, py in self._places(curve):
            colour = curve.colour if isinstance(curve.colour, str) else curve.colour[at]
            same = max(_SAME, min(self._radius(curve, at), _MOST_SAME))
            spot = (round(px / same), round(py / same), colour)
            if spot in seen or not self._is_inside(px, py):
                continue
            seen.add(spot)
            tip = self._tip(curve, at) if says_points else ""
            if is_plain:
                self._canvas.add("circle", tip, cx=px, cy=py, r=self._radius(curve, at))
                continue
            symbol = curve.symbols if isinstance(curve.symbols, str) else curve.symbols[at]
            draw_marker(self._canvas, px, py, symbol, self._radius(curve, at), colour, tip)
        self._canvas.close("g")

    def _is_inside(self, px: float, py: float) -> bool:
        frame = self._frame
        return frame.left - 1 <= px <= frame.right + 1 and frame.top - 1 <= py <= frame.bottom + 1

    def _radius(self, curve: Curve, at: int) -> float:
        if curve.areas:
            return max(_LARGEST * self._markers * math.sqrt(max(curve.areas[at], 0.0)), _LEAST) / 2
        size = curve.sizes[at] if isinstance(curve.sizes, tuple) else curve.sizes
        return size / 2

    def _write(self, curve: Curve, at: int, px: float, py: float) -> None:
        text = curve.texts[at].strip()
        if not text:
            return
        upright, _, side = curve.text_place.partition(" ")
        anchor = {"left": "right", "right": "left"}.get(side, "center")
        x = px + {"left": -7.0, "right": 7.0}.get(side, 0.0)
        y = py + {"top": -6.0, "bottom": SIZE + 4}.get(upright, 4.0)
        wide = text_width(text)
        if anchor == "left" and x + wide > self._frame.right + 4:
            anchor, x = "right", px - 7
        if anchor == "right" and x - wide < self._frame.left:
            anchor, x = "left", px + 7
        self._canvas.text(x, y, text, anchor=anchor)


def _stepped(points: Sequence[Point], is_step: bool) -> list[Point]:
    """With a corner before each change, where values stay until the next."""
    if not is_step or not points:
        return list(points)
    found = [points[0]]
    for x, y in points[1:]:
        before = found[-1][1]
        if abs(y - before) >= _LEVEL:
            found += [(x, before), (x, y)]
    return [*found, (points[-1][0], found[-1][1])]


def _thin(points: Sequence[Point]) -> list[Point]:
    """Of a long line the first, lowest, highest and last point of each pixel."""
    if len(points) < _LONG:
        return list(points)
    found: list[Point] = []
    for _, group in groupby(points, key=lambda point: round(point[0])):
        column = list(group)
        ends = {0, len(column) - 1}
        heights = [y for _, y in column]
        ends |= {heights.index(min(heights)), heights.index(max(heights))}
        found += [column[place] for place in sorted(ends)]
    return found
