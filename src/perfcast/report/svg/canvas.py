"""Elements of an SVG, and the texts that pointing at them shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from perfcast.report.svg.text import LINE_HEIGHT, SIZE, Box, text_box

_ANCHORS = {"left": "", "center": "middle", "right": "end"}
Point = tuple[float, float]


class Tips:
    """Texts of a page's figures, each once; elements refer to them by number."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """The number of a text."""
        return self._places.setdefault(text, len(self._places))

    @property
    def texts(self) -> list[str]:
        """By number."""
        return list(self._places)


class Canvas:
    """Collects elements in the order of drawing.

    Attributes:
        tips: Where texts of pointing go; None writes them into the elements as titles.
        boxes: Where text stands.
    """

    def __init__(self, tips: Tips | None = None) -> None:
        self.tips = tips
        self.boxes: list[Box] = []
        self._parts: list[str] = []

    def __str__(self) -> str:
        return "".join(self._parts)

    def add(self, name: str, tip: str = "", **attributes: float | str | None) -> None:
        """An element; '_' in names of attributes is '-', None leaves one out."""
        said = "".join(
            f' {_name(key)}="{escape(value) if isinstance(value, str) else number(value)}"'
            for key, value in attributes.items()
            if value is not None
        )
        if not tip:
            self._parts.append(f"<{name}{said}/>")
        elif self.tips is None:
            self._parts.append(f"<{name}{said}><title>{escape(tip)}</title></{name}>")
        else:
            self._parts.append(f'<{name}{said} data-t="{self.tips.place(tip)}"/>')

    def open(self, name: str, attributes: Mapping[str, float | str] | None = None) -> None:
        """Begin a group."""
        said = "".join(f' {key}="{escape(str(value))}"' for key, value in (attributes or {}).items())
        self._parts.append(f"<{name}{said}>")

    def close(self, name: str) -> None:
        """End it."""
        self._parts.append(f"</{name}>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "left",
        size: float = SIZE,
        kind: str = "",
        is_bold: bool = False,
        turn: float | None = None,
        tip: str = "",
    ) -> None:
        """Lines of text, the first on the baseline ``y``.

        Args:
            kind: Its class: 'soft' is paler, 'dark' is ink on a coloured ground.
            turn: Degrees, clockwise.
        """
        if turn is None:
            self.boxes.append(text_box(x, y, text, anchor, size, is_bold=is_bold))
        said = f' x="{number(x)}" y="{number(y)}"'
        said += f' text-anchor="{_ANCHORS[anchor]}"' if _ANCHORS[anchor] else ""
        said += f' font-size="{number(size)}"' if size != SIZE else ""
        said += f' class="{kind}"' if kind else ""
        said += ' font-weight="600"' if is_bold else ""
        said += f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn is not None else ""
        if tip and self.tips is not None:
            said += f' data-t="{self.tips.place(tip)}"'
        first, *rest = text.split("\n")
        inside = escape(first) + "".join(
            f'<tspan x="{number(x)}" dy="{number(LINE_HEIGHT * size)}">{escape(line)}</tspan>'
            for line in rest
        )
        self._parts.append(f"<text{said}>{inside}</text>")

    def line(
        self, start: Point, end: Point, colour: str, width: float = 1.0, dash: str | None = None
    ) -> None:
        """A straight line."""
        self.add(
            "path",
            d=path_of((start, end)),
            stroke=colour,
            stroke_width=width,
            stroke_dasharray=dash,
            fill="none",
        )


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is fine enough."""
    return f"{value:.1f}".removesuffix(".0")


def path_of(points: Sequence[Point], *, is_closed: bool = False) -> str:
    """A path through points."""
    said: list[str] = []
    before = ("", "")
    for at, (x, y) in enumerate(points):
        here = number(x), number(y)
        if at == 0:
            said.append(f"M{here[0]},{here[1]}")
        elif here[1] == before[1]:
            said.append(f"H{here[0]}")
        elif here[0] == before[0]:
            said.append(f"V{here[1]}")
        else:
            said.append(f"L{here[0]},{here[1]}")
        before = here
    return "".join(said) + "Z" * is_closed
