"""Matrices of colours: cells that say what they are, or a picture where they are many."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise

from perfcast.report.figure import Heatmap
from perfcast.report.svg.axes import Projection
from perfcast.report.svg.canvas import Canvas
from perfcast.report.svg.text import Box, text_width

#: Cells that are drawn one by one.
MOST_CELLS = 1100
_BAR, _BAR_GAP = 14.0, 18.0
_SHADES = 40

Colour = tuple[int, int, int]


def bar_room(heat: Heatmap) -> float:
    """Pixels that the bar of colours takes beside the plot."""
    if not heat.bar_ticks:
        return 0.0
    return _BAR_GAP + _BAR + 8 + max(text_width(text) for _, text in heat.bar_ticks)


def draw_heatmap(canvas: Canvas, heat: Heatmap, x: Projection, y: Projection, frame: Box) -> None:
    """The matrix and its bar of colours."""
    known = [value for row in heat.values for value in row if value is not None]
    low = min(known, default=0.0) if heat.low is None else heat.low
    high = max(known, default=1.0) if heat.high is None else heat.high
    count = sum(map(len, heat.values))
    for index, row in enumerate(heat.values):
        top, bottom = sorted((y.inside(index - 0.5), y.inside(index + 0.5)))
        box = Box(frame.left, top + heat.gap / 2, frame.right, bottom - heat.gap / 2)
        colours = [None if value is None else colour_of(heat, value, low, high) for value in row]
        if count <= MOST_CELLS:
            _cells(canvas, heat, index, colours, x, box)
        else:
            _strip(canvas, heat, colours, x, box)
    if heat.bar_ticks:
        _bar(canvas, heat, low, high, frame)


def colour_of(heat: Heatmap, value: float, low: float, high: float) -> Colour:
    """The colour of a value between two ends."""
    part = min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)
    for (start, first), (end, last) in pairwise(heat.colours):
        if part <= end:
            share = (part - start) / ((end - start) or 1.0)
            pairs = zip(_rgb(first), _rgb(last), strict=True)
            red, green, blue = (round(a + share * (b - a)) for a, b in pairs)
            return red, green, blue
    return _rgb(heat.colours[-1][1])


def _rgb(colour: str) -> Colour:
    """Of '#rrggbb', or of 'rgba(r,g,b,a)' on white."""
    if colour.startswith("#"):
        red, green, blue = bytes.fromhex(colour[1:7])
        return red, green, blue
    *parts, alpha = (float(part) for part in colour[colour.index("(") + 1 : -1].split(","))
    red, green, blue = (round(255 - alpha * (255 - part)) for part in parts)
    return red, green, blue


def _hex(colour: Colour) -> str:
    return "#" + bytes(colour).hex()


def _column(heat: Heatmap, x: Projection, index: int) -> tuple[float, float]:
    ends = (index - 0.5, index + 0.5) if heat.columns else (index * heat.width, (index + 1) * heat.width)
    return x.inside(ends[0]), x.inside(ends[1])


def _cells(
    canvas: Canvas, heat: Heatmap, row: int, colours: Sequence[Colour | None], x: Projection, box: Box
) -> None:
    for index, colour in enumerate(colours):
        tip = heat.hovers[row][index] if heat.hovers else ""
        if colour is None and not tip:
            continue
        left, right = _column(heat, x, index)
        fill = "transparent" if colour is None else _hex(colour)
        canvas.add(
            "rect",
            tip,
            x=left,
            y=box.top,
            width=right - left + 0.3,
            height=box.bottom - box.top + (0.0 if heat.gap else 0.3),
            fill=fill,
        )


def _strip(canvas: Canvas, heat: Heatmap, colours: Sequence[Colour | None], x: Projection, box: Box) -> None:
    """A row as a picture of one line of pixels."""
    left, right = _column(heat, x, 0)[0], _column(heat, x, len(colours) - 1)[1]
    canvas.add(
        "image",
        href="data:image/png;base64," + b64encode(png_row(colours)).decode(),
        x=left,
        y=box.top,
        width=right - left,
        height=box.bottom - box.top + (0.0 if heat.gap else 0.3),
        preserveAspectRatio="none",
        image_rendering="pixelated",
    )


def png_row(colours: Sequence[Colour | None]) -> bytes:
    """A PNG one pixel high (PNG specification 1.2: colour type 6, 8 bits, no filter); None is clear."""
    pixels = b"".join(bytes((*colour, 255)) if colour else bytes(4) for colour in colours)
    header = struct.pack(">IIBBBBB", len(colours), 1, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" + pixels, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _bar(canvas: Canvas, heat: Heatmap, low: float, high: float, frame: Box) -> None:
    """Colours from the lowest, at the bottom, to the highest."""
    left = frame.right + _BAR_GAP
    height = frame.bottom - frame.top
    for step in range(_SHADES):
        value = low + (high - low) * (step + 0.5) / _SHADES
        top = frame.bottom - height * (step + 1) / _SHADES
        colour = _hex(colour_of(heat, value, low, high))
        canvas.add("rect", x=left, y=top, width=_BAR, height=height / _SHADES + 0.5, fill=colour)
    for value, text in heat.bar_ticks:
        y = frame.bottom - height * (value - low) / ((high - low) or 1.0)
        canvas.text(left + _BAR + 6, min(max(y + 4, frame.top + 9), frame.bottom), text)
