"""Axes: where values lie, what is marked, and how that is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from perfcast.report.figure import Axis, Bars, Coordinate, Curve, Figure, Heatmap
from perfcast.report.palette import LINE
from perfcast.report.svg.canvas import Canvas
from perfcast.report.svg.text import Box, cut_text, text_width
from perfcast.report.ticks import SCALED_UNITS, Tick, axis_ticks, axis_unit_size

#: Pixels that a mark takes beside and along an axis.
_ACROSS, _ALONG = 84, 44
#: The fewest marks that an axis is to have.
_FEWEST = 4
_EDGE = 0.04
_GAP = 8
_TURN = -38.0


@dataclass(frozen=True, slots=True)
class Projection:
    """Values of an axis as pixels.

    Attributes:
        low, high: Values at ``start`` and ``end``; of categories their numbers.
        names: Of categories, in order.
    """

    axis: Axis
    low: float
    high: float
    start: float
    end: float
    names: tuple[Coordinate, ...] = ()

    def at(self, value: Coordinate) -> float | None:
        """Pixels of a value; None of nothing, or where a logarithm has none."""
        if value is None:
            return None
        if self.axis.scale == "category" and value in self.names:
            value = self.names.index(value)
        if isinstance(value, str):
            return None
        low, high = self.low, self.high
        if self.axis.scale == "log":
            if value <= 0:
                return None
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def inside(self, value: float) -> float:
        """The same, but no further than the ends."""
        found = self.at(value)
        least, most = sorted((self.start, self.end))
        return least if found is None else min(max(found, least), most)


def project(figure: Figure, which: str, start: float, end: float) -> Projection:
    """The projection of an axis, 'x' or 'y', of a figure."""
    axis = figure.x if which == "x" else figure.y
    if axis.scale == "category":
        names = tuple(dict.fromkeys(_names(figure, which)))
        low, high = -0.5, max(len(names), 1) - 0.5
    else:
        names = ()
        low, high = _domain(figure, axis, which)
    if axis.is_reversed:
        start, end = end, start
    return Projection(axis, low, high, start, end, names)


def _names(figure: Figure, which: str) -> Iterator[Coordinate]:
    for series in figure.series:
        if isinstance(series, Curve):
            yield from series.x if which == "x" else series.y
        elif isinstance(series, Bars) and figure.is_horizontal == (which == "y"):
            yield from series.labels
        elif isinstance(series, Heatmap):
            yield from series.columns if which == "x" else series.rows


def _domain(figure: Figure, axis: Axis, which: str) -> tuple[float, float]:
    if axis.low is not None and axis.high is not None:
        return (axis.low, axis.high) if axis.low != axis.high else (axis.low, axis.high + 1)
    rules = [rule.x if which == "x" else rule.y for rule in figure.rules]
    known = [v for v in (*list_values(figure, which), *rules) if v is not None and math.isfinite(v)]
    if axis.scale == "log":
        return _log_domain(axis, [value for value in known if value > 0])
    if axis.from_zero or _has_bars_along(figure, which):
        known.append(0.0)
    low, high = (min(known), max(known)) if any(known) else (0.0, 1.0)
    edge = _EDGE * (high - low) or (0.5 if low == 0 else abs(low) * 0.1)
    sides = (0.0 if low == 0 else edge, 0.0 if high == 0 else edge)
    if _has_labels_along(figure, which):
        sides = (0.5, 0.5)
    return (
        low - sides[0] if axis.low is None else axis.low,
        high + sides[1] if axis.high is None else axis.high,
    )


def _log_domain(axis: Axis, known: Sequence[float]) -> tuple[float, float]:
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    edge = (high / low) ** _EDGE if high > low else 2.0
    return axis.low or low / edge, axis.high or high * edge


def _has_bars_along(figure: Figure, which: str) -> bool:
    is_along = figure.is_horizontal == (which == "x")
    return is_along and any(isinstance(series, Bars) for series in figure.series)


def _has_labels_along(figure: Figure, which: str) -> bool:
    is_across = figure.is_horizontal == (which == "y")
    return is_across and any(isinstance(series, Bars) for series in figure.series)


def list_values(figure: Figure, which: str) -> list[float]:
    """All numbers on an axis, stacks summed up."""
    found: list[float] = []
    sums: dict[tuple[Coordinate, bool], float] = {}
    for series in figure.series:
        for key, value in _points(figure, series, which):
            if key is None:
                found.append(value)
            else:
                sums[key, value < 0] = sums.get((key, value < 0), 0.0) + value
    return found + list(sums.values())


def _points(figure: Figure, series: object, which: str) -> Iterator[tuple[Coordinate, float]]:
    """Values with what they are stacked on, None for nothing."""
    if isinstance(series, Curve):
        values, others = (series.x, series.y) if which == "x" else (series.y, series.x)
        is_stacked = series.fills == "stacked" and which == "y"
        for value, other in zip(values, others, strict=True):
            if isinstance(value, (int, float)):
                yield (other if is_stacked else None), float(value)
        if which == "x":
            yield from ((None, end) for ends in series.errors for end in ends)
    elif isinstance(series, Bars):
        yield from _bar_points(figure, series, which)
    elif isinstance(series, Heatmap):
        widest = max((len(row) for row in series.values), default=0)
        yield from (
            (None, end)
            for end in ((0.0, widest * series.width) if which == "x" else (-0.5, len(series.values) - 0.5))
        )


def _bar_points(figure: Figure, bars: Bars, which: str) -> Iterator[tuple[Coordinate, float]]:
    if figure.is_horizontal != (which == "x"):
        yield from ((None, float(label)) for label in bars.labels if isinstance(label, (int, float)))
        return
    for at, (label, value) in enumerate(zip(bars.labels, bars.values, strict=True)):
        if value is None:
            continue
        if bars.base:
            yield None, bars.base[at]
            yield None, bars.base[at] + value
        else:
            yield (label if figure.is_stacked else None), value


def ticks_of(figure: Figure, projection: Projection, which: str) -> list[Tick]:
    """Marks of an axis, none for one that cannot be seen."""
    axis = projection.axis
    if not axis.is_visible:
        return []
    if axis.scale == "category":
        return [(index, str(name)) for index, name in enumerate(projection.names)]
    room = abs(projection.end - projection.start)
    most = max(int(room / (_ACROSS if which == "x" else _ALONG)), _FEWEST)
    return axis_ticks(axis, projection.low, projection.high, unit_size(figure, which), most)


def unit_size(figure: Figure, which: str) -> float:
    """What values of an axis are divided by."""
    return axis_unit_size(figure.x if which == "x" else figure.y, list_values(figure, which))


def axis_title(figure: Figure, which: str) -> str:
    """Its title with the unit that its numbers have."""
    axis = figure.x if which == "x" else figure.y
    unit = SCALED_UNITS.get(unit_size(figure, which), "")
    return f"{axis.title} ({unit})" if axis.title and unit else axis.title or unit


def draw_grid(
    canvas: Canvas, frame: Box, x: Projection, y: Projection, marks: Sequence[Sequence[Tick]]
) -> None:
    """Lines at the marks, behind everything."""
    for projection, ticks, is_upright in ((x, marks[0], True), (y, marks[1], False)):
        if not (projection.axis.has_grid and projection.axis.is_visible):
            continue
        if projection.axis.scale == "category":
            continue
        places = [at for at in (projection.at(place) for place, _ in ticks) if at is not None]
        if is_upright:
            d = "".join(f"M{at:.1f},{frame.top:.1f}V{frame.bottom:.1f}" for at in places)
        else:
            d = "".join(f"M{frame.left:.1f},{at:.1f}H{frame.right:.1f}" for at in places)
        if d:
            canvas.add("path", d=d, stroke=LINE, fill="none", class_="xgrid" if is_upright else None)


def draw_left(canvas: Canvas, frame: Box, y: Projection, ticks: Sequence[Tick], room: float) -> None:
    """Texts beside the left edge; each is cut to the room and said whole by pointing at it."""
    last = math.inf
    order = sorted(ticks, key=lambda tick: -(y.at(tick[0]) or 0.0))
    for place, text in order:
        at = y.at(place)
        if at is None or last - at < 12 * (1 + text.count("\n")):
            continue
        last = at
        lines = "\n".join(cut_text(line, room) for line in text.split("\n"))
        lift = 4 - 7.5 * text.count("\n")
        canvas.text(frame.left - _GAP, at + lift, lines, anchor="right", tip="" if lines == text else text)


@dataclass(frozen=True, slots=True)
class Bottom:
    """How texts below an axis stand.

    Attributes:
        ticks: Those that are written.
        is_turned: Whether they lean.
        height: Pixels that they take.
    """

    ticks: tuple[Tick, ...]
    is_turned: bool = False
    height: float = 20.0


def plan_bottom(x: Projection, ticks: Sequence[Tick]) -> Bottom:
    """Texts side by side where they have room; else leaning, if they are names; else fewer of them."""
    if not ticks:
        return Bottom((), height=4.0)
    lines = max(text.count("\n") for _, text in ticks)
    kept = tuple(_spaced(x, ticks))
    height = 20.0 + 15 * lines
    if len(kept) == len(ticks) or x.axis.ticks:
        return Bottom(kept, height=height)
    if x.axis.scale != "category":
        fewer = (tuple(ticks[::every]) for every in range(2, len(ticks) + 1))
        return Bottom(next(one for one in fewer if len(tuple(_spaced(x, one))) == len(one)), height=height)
    longest = max(min(text_width(text), 150.0) for _, text in ticks)
    gaps = abs(x.end - x.start) / len(ticks)
    every = max(math.ceil(15 / gaps), 1)
    return Bottom(tuple(ticks[::every]), is_turned=True, height=18 + 0.64 * longest)


def _spaced(x: Projection, ticks: Iterable[Tick]) -> Iterator[Tick]:
    """Those whose texts do not meet."""
    taken: list[tuple[float, float]] = []
    for place, text in ticks:
        at = x.at(place)
        if at is None:
            continue
        half = text_width(text) / 2 + 4
        if all(at + half < left or right < at - half for left, right in taken):
            taken.append((at - half, at + half))
            yield place, text


def draw_bottom(canvas: Canvas, frame: Box, x: Projection, bottom: Bottom, width: float) -> None:
    """Texts below the plot, kept inside the figure."""
    for place, text in bottom.ticks:
        at = x.at(place)
        if at is None:
            continue
        if bottom.is_turned:
            canvas.text(at + 4, frame.bottom + 14, cut_text(text, 150), anchor="right", turn=_TURN, tip=text)
            continue
        half = text_width(text) / 2
        middle = min(max(at, half + 1), width - half - 1)
        canvas.text(middle, frame.bottom + 16, text, anchor="center")
