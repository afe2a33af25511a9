"""Figures as picture files: SVG as it is drawn, PNG by resvg, which needs no browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import PurePath
from types import ModuleType

from perfcast.errors import InputError, UnknownNameError
from perfcast.report.document import Block, Document, Section
from perfcast.report.figure import Figure
from perfcast.report.svg.draw import svg_of

ENDINGS = (".svg", ".png")
_WIDTH, _EDGE = 1000.0, 24.0
_TITLE, _CAPTION = 46.0, 34.0
#: Pixels of a PNG for each of the drawing's, so that it is sharp where it is shown large.
_ZOOM = 2.0
_FAMILY = "system-ui, 'DejaVu Sans', 'Helvetica Neue', Arial, sans-serif"
_STYLE = (
    f"text{{fill:#1c2430;font-family:{_FAMILY}}}.soft{{fill:#5b6675}}.dark{{fill:#0d1117}}"
    ".ground{fill:#ffffff;opacity:.8}"
)
#: Fonts without serifs, one of which most machines have; resvg takes one by its name.
_FONTS = ("DejaVu Sans", "Liberation Sans", "Arial", "Helvetica", "Noto Sans", "Segoe UI", "Roboto", "Ubuntu")


@dataclass(frozen=True, slots=True)
class PicturePlace:
    """Where a picture goes.

    Attributes:
        path: Ends in .svg or .png.
        figure: Which one; '' for all, below one another.
    """

    path: str
    figure: str = ""


def parse_picture(text: str) -> PicturePlace:
    """``'out.svg'`` or ``'out.png:roofline'``.

    Raises:
        InputError: It ends in neither, or names a PNG where nothing can draw one.
    """
    found = re.fullmatch(r"(.*?\.(?:svg|png))(?::([\w-]+))?", text, re.IGNORECASE)
    if found is None:
        raise InputError(
            f"'{text}' is no picture: a file that ends in .svg or .png, with :FIGURE for one of them"
        )
    place = PicturePlace(found[1], found[2] or "")
    if PurePath(place.path).suffix.lower() == ".png":
        _resvg()
    return place


def draw_picture(document: Document, place: PicturePlace) -> bytes:
    """What the file holds.

    Raises:
        InputError: The document has no figures, or no font is found to draw a PNG with.
        UnknownNameError: It has others.
    """
    captioned = list(_captioned(document.blocks, ""))
    if not captioned:
        raise InputError("--picture: this answer has no figures")
    if place.figure:
        known = {figure.name: (caption, figure) for caption, figure in captioned}
        if place.figure not in known:
            raise UnknownNameError("figure", place.figure, known, f"It has {', '.join(known)}.")
        captioned = [known[place.figure]]
    svg = join_figures(document.title, captioned)
    return svg.encode() if place.path.lower().endswith(".svg") else png_of(svg)


def _captioned(blocks: tuple[Block, ...], caption: str) -> Iterator[tuple[str, Figure]]:
    """Figures with the heading that they stand under."""
    for block in blocks:
        if isinstance(block, Figure):
            yield caption, block
        elif isinstance(block, Section):
            yield from _captioned(block.blocks, block.title or caption)


def join_figures(title: str, captioned: list[tuple[str, Figure]]) -> str:
    """Figures below one another under their headings, on white, as one SVG file."""
    parts: list[str] = []
    top = _EDGE + _TITLE
    said = ""
    for caption, figure in captioned:
        if caption and caption != said:
            parts.append(_text(top + 12, 15, caption))
            top += _CAPTION
            said = caption
        drawn = svg_of(figure, _WIDTH)
        height = float(drawn.split('height="', 1)[1].split('"', 1)[0])
        parts.append(drawn.replace("<svg ", f'<svg x="{_EDGE:.0f}" y="{top:.0f}" ', 1))
        top += height + _EDGE
    width = _WIDTH + 2 * _EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {top:.0f}" width="{width:.0f}" '
        f'height="{top:.0f}"><style>{_STYLE}</style><rect width="100%" height="100%" fill="#ffffff"/>'
        f"{_text(_EDGE + 18, 20, title)}"
        f"{''.join(parts)}</svg>\n"
    )


def _text(y: float, size: int, text: str) -> str:
    return f'<text x="{_EDGE:.0f}" y="{y:.0f}" font-size="{size}" font-weight="600">{escape(text)}</text>'


def png_of(svg: str) -> bytes:
    """An SVG as a PNG of twice its size.

    Raises:
        InputError: resvg is not installed, or no font is found.
    """
    resvg = _resvg()
    for family in _FONTS:
        if _draws(family):
            # resvg knows SVG's word for unsmoothed pixels, not that of CSS
            named = svg.replace(_FAMILY, f"'{family}'").replace('"pixelated"', '"optimizeSpeed"')
            return bytes(resvg.svg_to_bytes(svg_string=named, zoom=_ZOOM, font_family=family))
    raise InputError(
        f"a PNG needs a font, and this machine has none of {', '.join(_FONTS)}: "
        "install one (Debian: fonts-dejavu-core) or write .svg"
    )


def _draws(family: str) -> bool:
    """Whether letters of a font leave ink: a font that is missing draws nothing, and says nothing."""
    resvg = _resvg()
    size = 'xmlns="http://www.w3.org/2000/svg" width="20" height="20"'
    blank = bytes(resvg.svg_to_bytes(svg_string=f"<svg {size}></svg>"))
    letter = f'<svg {size}><text x="2" y="16" font-family="{family}">M</text></svg>'
    return bytes(resvg.svg_to_bytes(svg_string=letter)) != blank


def _resvg() -> ModuleType:
    try:
        import resvg_py
    except ImportError:
        raise InputError("a PNG needs resvg: pip install 'perfcast[png]', or write .svg") from None
    return resvg_py
