"""How much room text takes, where it is cut, and where it may stand.

Widths are those of DejaVu Sans, which is wider than the fonts that browsers choose for ``system-ui``: what
does not collide here collides nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Of the printable letters of ASCII, from the space on, in hundredths of the font's size.
_WIDTHS = tuple(
    int(width)
    for width in (
        "32 40 46 84 64 95 78 27 39 39 50 84 32 36 32 34 64 64 64 64 64 64 64 64 "
        "64 64 34 34 84 84 84 53 100 68 69 70 77 63 58 77 75 29 29 66 56 86 75 79 "
        "60 79 69 63 61 73 68 99 69 61 69 39 34 39 84 50 50 61 63 55 63 62 35 63 "
        "63 28 28 58 28 97 63 61 63 63 41 52 39 63 59 82 59 59 52 64 34 64 84 "
    ).split()
)
_OTHER, _BOLD = 84, 1.13
_FIRST = 32
SIZE = 12.0
LINE_HEIGHT = 1.25


def text_width(text: str, size: float = SIZE, *, is_bold: bool = False) -> float:
    """Pixels of the longest line."""
    longest = max(sum(map(_letter_width, line)) for line in text.split("\n"))
    return longest * size / 100 * (_BOLD if is_bold else 1.0)


def _letter_width(letter: str) -> int:
    place = ord(letter) - _FIRST
    return _WIDTHS[place] if 0 <= place < len(_WIDTHS) else _OTHER


def cut_text(text: str, room: float, size: float = SIZE) -> str:
    """One line that ends with '…' where there is no room; '' where not even three letters have some."""
    if text_width(text, size) <= room:
        return text
    kept = text
    while kept and text_width(kept + "…", size) > room:
        kept = kept[:-1]
    return f"{kept.rstrip()}…" if len(kept) >= 3 else ""


def wrap_text(text: str, room: float, size: float = SIZE) -> list[str]:
    """Lines no longer than the room, as far as words allow."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels, y downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether both have a part in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def is_inside(self, other: Box) -> bool:
        """Whether nothing of it is outside the other."""
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )


def text_box(
    x: float, baseline: float, text: str, anchor: str, size: float = SIZE, *, is_bold: bool = False
) -> Box:
    """Where lines of text are, the first on a baseline.

    Args:
        anchor: Which of their sides is at ``x``: left, center, right.
    """
    width = text_width(text, size, is_bold=is_bold)
    left = x - {"left": 0.0, "center": 0.5, "right": 1.0}[anchor] * width
    lines = text.count("\n")
    bottom = baseline + 0.2 * size + lines * LINE_HEIGHT * size
    return Box(left, baseline - 0.75 * size, left + width, bottom)
