"""Nested rectangles.

Laid out by rows as square as can be (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from perfcast.report.figure import Treemap
from perfcast.report.svg.canvas import Canvas
from perfcast.report.svg.text import Box, cut_text

#: From the outermost to the innermost.
_SHADES = ("#e3ecf5", "#c3d8ec", "#9fc2e2", "#78a9d5", "#5592c8")
_HEAD, _PAD, _LEAST = 19.0, 3.0, 2.0
_SAME = 1e-9
#: Width below which a box's text has less of an edge.
_SMALL = 40.0


def squarify(values: Sequence[float], box: Box) -> list[Box]:
    """A rectangle for each value, the largest first, that fill a box in proportion."""
    total = sum(values)
    if not total > 0:
        return [Box(box.left, box.top, box.left, box.top) for _ in values]
    scale = (box.right - box.left) * (box.bottom - box.top) / total
    areas = [value * scale for value in values]
    found: list[Box] = []
    row: list[float] = []
    for area in areas:
        side = min(box.right - box.left, box.bottom - box.top)
        if row and _worst([*row, area], side) > _worst(row, side):
            boxes, box = _lay(row, box)
            found += boxes
            row = []
        row.append(area)
    return found + _lay(row, box)[0]


def grid(count: int, box: Box) -> list[Box]:
    """Equal rectangles in rows, as square as can be, in reading order; full rows where a number divides."""
    wide, high = box.right - box.left, box.bottom - box.top
    best = max(math.sqrt(count * wide / high), 1.0) if high > 0 else 1.0
    divisors = [columns for columns in range(1, count + 1) if count % columns == 0]
    columns = min(divisors, key=lambda one: abs(math.log(one / best)))
    if abs(math.log(columns / best)) > math.log(2):
        columns = min(round(best), count)
    rows = -(-count // columns)
    sizes = wide / columns, high / rows
    corners = [
        (box.left + at % columns * sizes[0], box.top + at // columns * sizes[1]) for at in range(count)
    ]
    return [Box(x, y, x + sizes[0], y + sizes[1]) for x, y in corners]


def _worst(row: Sequence[float], side: float) -> float:
    """How far the least square of a row is from one."""
    total = sum(row)
    if not total or not side:
        return float("inf")
    least = min(row)
    return max(side**2 * max(row) / total**2, total**2 / (side**2 * least) if least else float("inf"))


def _lay(row: Sequence[float], box: Box) -> tuple[list[Box], Box]:
    """The rectangles of a row along the shorter side, and what is left."""
    total = sum(row)
    wide, high = box.right - box.left, box.bottom - box.top
    found: list[Box] = []
    if wide >= high:
        depth, at = (total / high if high else 0.0), box.top
        for area in row:
            end = at + (area / depth if depth else 0.0)
            found.append(Box(box.left, at, box.left + depth, end))
            at = end
        return found, Box(box.left + depth, box.top, box.right, box.bottom)
    depth, at = (total / wide if wide else 0.0), box.left
    for area in row:
        end = at + (area / depth if depth else 0.0)
        found.append(Box(at, box.top, end, box.top + depth))
        at = end
    return found, Box(box.left, box.top + depth, box.right, box.bottom)


def draw_treemap(canvas: Canvas, tree: Treemap, box: Box) -> None:
    """All levels down to the tree's depth."""
    inside: dict[str, list[int]] = {}
    for at, (name, parent) in enumerate(zip(tree.ids, tree.parents, strict=True)):
        if name:
            inside.setdefault(parent, []).append(at)
    for members in inside.values():
        members.sort(key=lambda at: -tree.values[at])
    root = tree.ids.index("") if "" in tree.ids else 0
    _draw(canvas, tree, inside, root, box, 0)


def _draw(
    canvas: Canvas, tree: Treemap, inside: Mapping[str, list[int]], at: int, box: Box, level: int
) -> None:
    wide, high = box.right - box.left, box.bottom - box.top
    if wide < _LEAST or high < _LEAST:
        return
    own = tree.colours[at] if tree.colours else ""
    shade = own or _SHADES[min(level, len(_SHADES) - 1)]
    canvas.add(
        "rect",
        tree.hovers[at],
        x=box.left,
        y=box.top,
        width=wide,
        height=high,
        fill=shade,
        rx=3,
        stroke="#ffffff",
    )
    members = inside.get(tree.ids[at], []) if level < tree.depth else []
    has_head = (wide > 30 and high > _HEAD + 4) or (not members and wide > 14 and high > 14)
    if has_head:
        _write(canvas, tree, at, box, has_members=bool(members))
    if not members:
        return
    top = box.top + (_HEAD if has_head else _PAD)
    room = Box(box.left + _PAD, top, box.right - _PAD, box.bottom - _PAD)
    if room.right - room.left < _LEAST or room.bottom - room.top < _LEAST:
        return
    values = [tree.values[one] for one in members]
    rest = max(tree.values[at] - sum(values), 0.0)
    if rest < _SAME * tree.values[at] and max(values) - min(values) < _SAME * max(values):
        for one, part in zip(members, grid(len(members), room), strict=True):
            _draw(canvas, tree, inside, one, part, level + 1)
        return
    place = sum(value >= rest for value in values)
    parts = squarify([*values[:place], rest, *values[place:]], room)
    for one, part in zip(members, parts[:place] + parts[place + 1 :], strict=True):
        _draw(canvas, tree, inside, one, part, level + 1)


def _write(canvas: Canvas, tree: Treemap, at: int, box: Box, *, has_members: bool) -> None:
    """The label, and the amount beside it in a head or below it in a leaf."""
    room = box.right - box.left - (10 if box.right - box.left > _SMALL else 4)
    label, text = tree.labels[at], tree.texts[at]
    whole = " · ".join(filter(None, (label, text)))
    if has_members or box.bottom - box.top < 2 * _HEAD:
        written = whole if cut_text(whole, room) == whole else cut_text(label, room)
    else:
        amount = text if cut_text(text, room) == text else cut_text(text.partition(" · ")[0], room)
        written = "\n".join(filter(None, (cut_text(label, room), amount)))
    if written:
        left = box.left + (5 if box.right - box.left > _SMALL else 3)
        canvas.text(left, box.top + 14, written, kind="dark")
