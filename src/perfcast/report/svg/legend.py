"""The legend: what colours and symbols stand for, in as many rows as it takes."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.report.figure import Bars, Curve, Figure
from perfcast.report.svg.canvas import Canvas
from perfcast.report.svg.markers import draw_marker
from perfcast.report.svg.text import cut_text, text_width

ROW = 20.0
_MARK, _GAP = 20.0, 16.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One name.

    Attributes:
        x, row: Where it stands.
        series: What it names.
    """

    x: float
    row: int
    text: str
    series: Bars | Curve


@dataclass(frozen=True, slots=True)
class Legend:
    """All entries and how high they are."""

    entries: tuple[Entry, ...] = ()
    height: float = 0.0


def plan_legend(figure: Figure, left: float, right: float) -> Legend:
    """Entries in rows between two edges."""
    if not figure.legend:
        return Legend()
    entries: list[Entry] = []
    x, row = left, 0
    for series in _named(figure):
        text = cut_text(series.name.replace("\n", " "), right - left - _MARK)
        width = _MARK + text_width(text) + _GAP
        if entries and x + width - _GAP > right:
            x, row = left, row + 1
        entries.append(Entry(x, row, text, series))
        x += width
    return Legend(tuple(entries), ROW * (row + 1) + 6 if entries else 0.0)


def _named(figure: Figure) -> list[Bars | Curve]:
    """Series that have an entry, one of each name."""
    found: dict[str, Bars | Curve] = {}
    for series in figure.series:
        is_told = isinstance(series, Bars) or (isinstance(series, Curve) and series.in_legend)
        if is_told and isinstance(series, (Bars, Curve)) and series.name:
            found.setdefault(series.name, series)
    return list(found.values())


def draw_legend(canvas: Canvas, legend: Legend, top: float) -> None:
    """Each entry's mark and name."""
    for entry in legend.entries:
        y = top + ROW * entry.row + 10
        _mark(canvas, entry.series, entry.x, y)
        canvas.text(entry.x + _MARK, y + 4, entry.text)


def _mark(canvas: Canvas, series: Bars | Curve, x: float, y: float) -> None:
    colour = series.colours if isinstance(series, Bars) else series.colour
    one = colour if isinstance(colour, str) else colour[0] if colour else "none"
    if isinstance(series, Bars) or series.fills or series.width > 6:
        opacity = series.opacity if isinstance(series, Curve) else None
        canvas.add("rect", x=x, y=y - 5, width=12, height=10, rx=2, fill=one, opacity=opacity)
        return
    if "lines" in series.mode:
        dash = {"solid": None, "dash": "5 3", "dot": "2 2"}[series.dash]
        canvas.line((x - 1, y), (x + 14, y), one, max(series.width, 1.5), dash)
    if "markers" in series.mode:
        symbol = series.symbols if isinstance(series.symbols, str) else series.symbols[0]
        draw_marker(canvas, x + 6.5, y, symbol, 5.0 if series.areas else 4.0, one)
