"""Parallel coordinates: axes side by side where there is room, below one another where there is little."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.report.figure import Parallel, Strands
from perfcast.report.palette import INK
from perfcast.report.svg.canvas import Canvas, path_of
from perfcast.report.svg.text import LINE_HEIGHT, Box, cut_text, text_box, text_width, wrap_text

#: Pixels of an axis: less than this beside the next, and they lie below one another.
_LEAST_GAP = 58.0
#: Height of an axis that lies, with its title and ticks.
_ROW = 62.0
_PAD, _FOOT = 10.0, 14.0
_TICK = 10.5


def lies(parallel: Parallel, width: float) -> bool:
    """Whether axes lie below one another."""
    return width / max(len(parallel.axes), 1) < _LEAST_GAP


def parallel_height(parallel: Parallel, width: float, height: float) -> float:
    """Pixels that the figure takes."""
    return _ROW * len(parallel.axes) + 8 if lies(parallel, width) else height


def draw_parallel(canvas: Canvas, parallel: Parallel, width: float, height: float) -> None:
    """All axes and lines."""
    if lies(parallel, width):
        _draw_lying(canvas, parallel, width)
    else:
        _draw_standing(canvas, parallel, width, height)


def _draw_standing(canvas: Canvas, parallel: Parallel, width: float, height: float) -> None:
    count = len(parallel.axes)
    gap = width / count
    titles = [_wrapped(axis.title, gap - 8) for axis in parallel.axes]
    top = 16 + 15 * max(map(len, titles))
    bottom = height - _FOOT
    places = [_PAD + gap * index + 10 for index in range(count)]
    for strands in parallel.strands:
        _lines(
            canvas,
            strands,
            [
                [(x, bottom - at * (bottom - top)) for x, at in zip(places, line, strict=True)]
                for line in strands.lines
            ],
        )
    for x, axis, lines in zip(places, parallel.axes, titles, strict=True):
        canvas.line((x, top), (x, bottom), INK)
        canvas.text(max(x - 10, 0), 12, "\n".join(lines), is_bold=True)
        last = float("inf")
        for at, text in sorted(axis.ticks):
            y = bottom - at * (bottom - top)
            shown = "\n".join(_wrapped(text, gap - 14, _TICK))
            tall = 13.0 * (shown.count("\n") + 1)
            if last - y < tall:
                continue
            last = y
            _boxed(canvas, x + 5, y + 4 - 13.0 * shown.count("\n") / 2, shown)


def _draw_lying(canvas: Canvas, parallel: Parallel, width: float) -> None:
    rows = [_ROW * index + 26 for index in range(len(parallel.axes))]
    left, right = 14.0, width - 14.0
    for strands in parallel.strands:
        _lines(
            canvas,
            strands,
            [
                [(left + at * (right - left), y) for y, at in zip(rows, line, strict=True)]
                for line in strands.lines
            ],
        )
    for y, axis in zip(rows, parallel.axes, strict=True):
        canvas.line((left, y), (right, y), INK)
        title = axis.title.replace("_", " ")
        _boxed(canvas, 2, y - 9, title, is_bold=True)
        end = float("-inf")
        for at, text in sorted(axis.ticks):
            x = left + at * (right - left)
            shown = cut_text(text.replace("\n", ""), 120, _TICK)
            half = text_width(shown, _TICK) / 2
            middle = min(max(x, half + 3), width - half - 3)
            if middle - half < end + 6:
                continue
            end = middle + half
            _boxed(canvas, middle, y + 15, shown, anchor="center")


def _lines(canvas: Canvas, strands: Strands, lines: Sequence[Sequence[tuple[float, float]]]) -> None:
    """Lines of one look as one path; a look of one line says what it is."""
    canvas.add(
        "path",
        strands.hover,
        d="".join(map(path_of, lines)),
        stroke=strands.colour,
        stroke_width=strands.width,
        opacity=strands.opacity,
        fill="none",
    )


def _wrapped(text: str, room: float, size: float = 12.0) -> list[str]:
    """A name in lines that fit, broken at '_', '-' and spaces; a longer part is cut."""
    parts = text.replace("\n", "").replace("_", " ").replace("-", "- ")
    lines = [line.replace("- ", "-") for line in wrap_text(parts, room, size)]
    return [cut_text(line, room + 4, size) or line[:2] for line in lines]


def _boxed(
    canvas: Canvas, x: float, y: float, text: str, *, anchor: str = "left", is_bold: bool = False
) -> None:
    """Text on a ground of its own, over the lines."""
    box: Box = text_box(x, y, text, anchor, _TICK, is_bold=is_bold)
    canvas.add(
        "rect",
        x=box.left - 2,
        y=box.top - 1,
        width=box.right - box.left + 4,
        height=box.bottom - box.top + 2
        if "\n" not in text
        else LINE_HEIGHT * _TICK * (text.count("\n") + 1) + 2,
        rx=2,
        class_="ground",
    )
    canvas.text(x, y, text, anchor=anchor, size=_TICK, is_bold=is_bold)
