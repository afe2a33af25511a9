"""Bars, side by side, stacked, or over one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from perfcast.report.figure import Bars, Coordinate, Figure
from perfcast.report.palette import INK
from perfcast.report.svg.axes import Projection
from perfcast.report.svg.canvas import Canvas
from perfcast.report.svg.text import Box, text_width

#: Part of the room of a label that its bars fill, and the most pixels of one.
_FILLED, _WIDEST = 0.72, 46.0
_CORNER = 2.0


@dataclass(frozen=True, slots=True)
class Band:
    """Where the bars of a label stand, from its middle.

    Attributes:
        low, high: Edges in pixels.
    """

    low: float
    high: float


def band_of(figure: Figure, across: Projection, shift: float = 0.0) -> Band:
    """The room of all bars of one label.

    Args:
        shift: Pixels that are left free above each, for its label.
    """
    labels = sorted(
        {
            float(at)
            for series in figure.series
            if isinstance(series, Bars)
            for at in map(across.at, series.labels)
            if at is not None
        }
    )
    gaps = [after - before for before, after in pairwise(labels)]
    unit = min([gap for gap in gaps if gap > 0], default=abs(across.end - across.start))
    wide = min(_FILLED * unit, _WIDEST) if not shift else unit - shift - 8
    middle = shift / 2 if shift else 0.0
    return Band(middle - wide / 2, middle + wide / 2)


def draw_bars(
    canvas: Canvas, figure: Figure, along: Projection, across: Projection, frame: Box, shift: float = 0.0
) -> None:
    """All series of bars of a figure."""
    every = [series for series in figure.series if isinstance(series, Bars)]
    band = band_of(figure, across, shift)
    ends: dict[tuple[Coordinate, bool], float] = {}
    for turn, bars in enumerate(every):
        place = band
        if figure.is_grouped and len(every) > 1:
            wide = (band.high - band.low) / len(every)
            place = Band(band.low + turn * wide + 0.5, band.low + (turn + 1) * wide - 0.5)
        _draw_series(canvas, figure, bars, along, across, place, ends, frame)


def _draw_series(
    canvas: Canvas,
    figure: Figure,
    bars: Bars,
    along: Projection,
    across: Projection,
    band: Band,
    ends: dict[tuple[Coordinate, bool], float],
    frame: Box,
) -> None:
    for at, (label, value) in enumerate(zip(bars.labels, bars.values, strict=True)):
        middle = across.at(label)
        if value is None or middle is None:
            continue
        start = bars.base[at] if bars.base else 0.0
        if figure.is_stacked and not bars.base:
            key = (label, value < 0)
            start = ends.get(key, 0.0)
            ends[key] = start + value
        low, high = sorted((along.inside(start), along.inside(start + value)))
        if figure.is_stacked and high - low < 0.05:
            continue
        colour = bars.colours if isinstance(bars.colours, str) else bars.colours[at]
        box = Box(low, middle + band.low, high, middle + band.high)
        if not figure.is_horizontal:
            box = Box(middle + band.low, low, middle + band.high, high)
        tip = _tip(bars, at, label)
        canvas.add(
            "rect",
            tip,
            x=box.left,
            y=box.top,
            width=max(box.right - box.left, 0.5),
            height=max(box.bottom - box.top, 0.5),
            fill=colour,
            rx=None if figure.is_stacked else _CORNER,
        )
        if bars.texts and not figure.is_stacked:
            _write(canvas, figure, bars.texts[at], box, frame, is_below=value < 0)


def _tip(bars: Bars, at: int, label: Coordinate) -> str:
    if bars.hovers:
        return bars.hovers[at]
    return "\n".join(filter(None, (str(label), bars.name, bars.texts[at] if bars.texts else "")))


def _write(canvas: Canvas, figure: Figure, text: str, box: Box, frame: Box, *, is_below: bool) -> None:
    """A bar's text beside its end, or inside it where there is no room beside."""
    wide = text_width(text)
    if not figure.is_horizontal:
        if wide <= (box.right - box.left) * 1.3:
            canvas.text((box.left + box.right) / 2, box.top - 4, text, anchor="center")
        return
    y = (box.top + box.bottom) / 2 + 4
    if is_below:
        canvas.text(box.left - 4, y, text, anchor="right")
    elif box.right + 5 + wide <= frame.right + 2:
        canvas.text(box.right + 5, y, text)
    else:
        canvas.text(box.right - 5, y, text, anchor="right", kind="dark")


def error_bars(canvas: Canvas, x: Projection, y: float, ends: Sequence[float], colour: str = INK) -> None:
    """A horizontal interval with its caps."""
    low, high = (x.inside(end) for end in ends)
    d = f"M{low:.1f},{y:.1f}H{high:.1f}M{low:.1f},{y - 4:.1f}v8M{high:.1f},{y - 4:.1f}v8"
    canvas.add("path", d=d, stroke=colour, stroke_width=1.2, fill="none")
