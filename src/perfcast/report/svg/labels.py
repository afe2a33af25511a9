"""Rules across a figure and texts at its points, kept from standing on one another."""

from __future__ import annotations

from collections.abc import Iterator

from perfcast.report.figure import Figure, Label, Rule
from perfcast.report.palette import INK, LINE, RED
from perfcast.report.svg.axes import Projection
from perfcast.report.svg.canvas import Canvas
from perfcast.report.svg.text import LINE_HEIGHT, SIZE, Box, text_box, text_width

#: Of the strip above the plot in which names of rules and stretches stand.
STRIP = 18.0
_GAP = 5.0
_BOXED = 11.0


def needs_strip(figure: Figure) -> bool:
    """Whether texts stand above the plot."""
    return any(label.y is None for label in figure.labels) or any(
        rule.label and rule.x is not None for rule in figure.rules
    )


def beside_room(figure: Figure) -> float:
    """Pixels that names of rules take right of the plot."""
    texts = [rule.label for rule in figure.rules if rule.label and rule.place == "beside"]
    return max((text_width(text) + _GAP + 4 for text in texts), default=0.0)


def draw_rules(canvas: Canvas, figure: Figure, x: Projection, y: Projection, frame: Box) -> None:
    """Lines across the plot with their names: upright ones above it, others at their right end or beside."""
    for rule in figure.rules:
        at = (x if rule.x is not None else y).at(rule.x if rule.x is not None else rule.y)
        if at is None:
            continue
        is_upright = rule.x is not None
        start, end = (
            ((at, frame.top), (at, frame.bottom)) if is_upright else ((frame.left, at), (frame.right, at))
        )
        low, high = (frame.left, frame.right) if is_upright else (frame.top, frame.bottom)
        if not low - 1 <= at <= high + 1:
            continue
        if rule.is_alarm:
            canvas.line(start, end, RED, 2, "6 4")
        else:
            canvas.line(start, end, LINE, 1.5)
        if rule.label:
            _name_rule(canvas, rule, at, frame)


def _name_rule(canvas: Canvas, rule: Rule, at: float, frame: Box) -> None:
    if rule.place == "beside":
        lift = 4 - rule.label.count("\n") * LINE_HEIGHT * SIZE / 2
        canvas.text(frame.right + _GAP, at + lift, rule.label)
        return
    text = rule.label.replace("\n", " ")
    if rule.x is None:
        baseline = at - 5 if at - 18 >= frame.top - STRIP else at + 15
        canvas.text(frame.right - 2, baseline, text, anchor="right")
        return
    wide = text_width(text)
    is_late = at + wide / 2 > frame.right
    anchor = "right" if is_late else "left" if at - wide / 2 < frame.left else "center"
    canvas.text(frame.right if is_late else at, frame.top - 5, text, anchor=anchor)


def draw_labels(canvas: Canvas, figure: Figure, x: Projection, y: Projection, frame: Box) -> None:
    """Texts at points, those that stand out first; a name of a stretch that has no room is left out."""
    for label in sorted(figure.labels, key=lambda label: (label.arrow is None, label.y is None)):
        at = x.at(label.x)
        if at is None:
            continue
        if label.y is None:
            _above(canvas, label, at, frame)
            continue
        height = y.at(label.y)
        if height is not None:
            _at_point(
                canvas, label, at, height, frame, None if label.arrow_y is None else y.at(label.arrow_y)
            )


def _above(canvas: Canvas, label: Label, at: float, frame: Box) -> None:
    text = " ".join(filter(None, (label.bold, label.text))).replace("\n", " ")
    anchor = label.anchor
    box = text_box(at, frame.top - 5, text, anchor)
    if box.right > frame.right + 8:
        at, anchor = frame.right, "right"
        box = text_box(at, frame.top - 5, text, anchor)
    padded = Box(box.left - _GAP, box.top, box.right + _GAP, box.bottom)
    if any(padded.meets(other) for other in canvas.boxes):
        return
    canvas.text(at, frame.top - 5, text, anchor=anchor, kind="soft", tip=label.hover)


def _at_point(
    canvas: Canvas, label: Label, at: float, height: float, frame: Box, raised: float | None
) -> None:
    """The text where it was asked for, or at the nearest place that is free."""
    text = "\n".join(filter(None, (label.bold, label.text)))
    right, down = label.arrow or (0.0, -3.0)
    start = (at + right, height + down if raised is None else raised)
    room = Box(0.0, frame.top - STRIP, frame.right + 60, frame.bottom)
    lines = text.count("\n")
    for x, bottom, anchor in _places(*start, label.anchor):
        baseline = bottom - lines * LINE_HEIGHT * SIZE - 3
        box = text_box(x, baseline, text, anchor, is_bold=bool(label.bold))
        if box.is_inside(room) and box.right <= frame.right and not any(map(box.meets, canvas.boxes)):
            break
    else:
        x, anchor = start[0], label.anchor
        baseline = start[1] - lines * LINE_HEIGHT * SIZE - 3
    if label.arrow is not None:
        canvas.line((at, height), (x, min(baseline + lines * LINE_HEIGHT * SIZE + 3, height)), INK)
    if label.is_boxed:
        box = text_box(x, baseline, text, anchor, _BOXED)
        canvas.add(
            "rect",
            x=box.left - 2,
            y=box.top - 1,
            width=box.right - box.left + 4,
            height=box.bottom - box.top + 2,
            fill="rgba(128,140,156,0.3)",
        )
    _write(canvas, label, x, baseline, anchor)


def _write(canvas: Canvas, label: Label, x: float, baseline: float, anchor: str) -> None:
    size = _BOXED if label.is_boxed else SIZE
    if label.bold:
        canvas.text(x, baseline, label.bold, anchor=anchor, size=size, is_bold=True, tip=label.hover)
        baseline += LINE_HEIGHT * size * (1 + label.bold.count("\n"))
    if label.text:
        canvas.text(x, baseline, label.text, anchor=anchor, size=size, tip=label.hover)


def _places(x: float, y: float, anchor: str) -> Iterator[tuple[float, float, str]]:
    """Where a text was asked for, then further and further up, down, and on the other side."""
    other = {"left": "right", "right": "left", "center": "center"}[anchor]
    for away in (0, 14, 28, 42, 60, 80):
        for up in (-away, away) if away else (0,):
            yield x, y + up, anchor
            yield x, y + up, other
            yield x, y + up, "center"
