"""Symbols of points."""

from __future__ import annotations

import math

from perfcast.report.svg.canvas import Canvas, path_of

_SIDES = {
    "square": (45.0, 4),
    "diamond": (0.0, 4),
    "triangle-up": (-90.0, 3),
    "triangle-down": (90.0, 3),
    "pentagon": (-90.0, 5),
    "hexagon": (0.0, 6),
}
_STAR_WAIST = 0.42


def draw_marker(
    canvas: Canvas, x: float, y: float, symbol: str, radius: float, colour: str, tip: str = ""
) -> None:
    """A symbol around a point; '-open' ones are outlines.

    Raises:
        KeyError: Of an unknown symbol.
    """
    is_open = symbol.endswith("-open")
    name = symbol.removesuffix("-open").removesuffix("-thin")
    look: dict[str, str | float | None] = {"fill": colour}
    if is_open:
        look = {"fill": "none", "stroke": colour, "stroke_width": 1.6}
    if name == "circle":
        canvas.add("circle", tip, cx=x, cy=y, r=radius, **look)
        return
    if name in ("x", "cross"):
        look = {"fill": "none", "stroke": colour, "stroke_width": 1.6 if symbol.count("-") else 2.4}
        canvas.add("path", tip, d=_cross(x, y, radius, is_upright=name == "cross"), **look)
        return
    canvas.add("path", tip, d=_polygon(x, y, name, radius), **look)


def _cross(x: float, y: float, radius: float, *, is_upright: bool) -> str:
    if is_upright:
        return path_of(((x - radius, y), (x + radius, y))) + path_of(((x, y - radius), (x, y + radius)))
    part = radius * 0.8
    return path_of(((x - part, y - part), (x + part, y + part))) + path_of(
        ((x - part, y + part), (x + part, y - part))
    )


def _polygon(x: float, y: float, name: str, radius: float) -> str:
    if name == "star":
        rays = [(radius * (_STAR_WAIST if place % 2 else 1), -90.0 + 36 * place) for place in range(10)]
    else:
        first, sides = _SIDES[name]
        wide = radius * (1.2 if sides <= 4 else 1.0)
        rays = [(wide, first + 360 * place / sides) for place in range(sides)]
    turned = [(length, math.radians(angle)) for length, angle in rays]
    return path_of(
        [(x + length * math.cos(a), y + length * math.sin(a)) for length, a in turned], is_closed=True
    )
