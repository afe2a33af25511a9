"""A document on the page: the markup of the reports, with figures that can be looked into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

# named so that the page knows where the plotly that NiceGUI brings along is
import nicegui.elements.plotly  # noqa: F401
from nicegui.element import Element

from perfcast.report.document import Document, list_figures
from perfcast.report.figure import Curve, Figure, Heatmap, Parallel, Treemap
from perfcast.report.page import render_body
from perfcast.report.plots import plotly_dict
from perfcast.report.svg.draw import WIDE, svg_of
from perfcast.report.values import format_value

#: Widths of figures in pixels: beside the controls, and on a phone.
_WIDE, _NARROW = 840.0, 360.0
_LETTER_PIXELS = 12
#: Of figures that are low: their height, and what the title below needs of it.
_LOW_PIXELS, _TITLE_PIXELS = 250, 24
#: From so many points on, looking closer shows more.
_LEAST_POINTS = 30


@dataclass(frozen=True, slots=True)
class Rendered:
    """A document, ready to be sent.

    Attributes:
        html: With a place for each figure that can be looked into.
        figures: Of those, plotly's data and layout by the figure's name.
        headline: The first of its figures, in a few words.
    """

    html: str
    figures: Mapping[str, Mapping[str, Any]]
    headline: str


def render_document(document: Document, *, is_narrow: bool = False) -> Rendered:
    """The words, tables and figures of that document's report. Takes a moment: not for the event loop.

    Args:
        is_narrow: Whether it is for a phone, whose figures are drawn for its width and stay as they are.
    """
    title = f'<h2 class="title">{escape(document.title)}</h2>'
    shown = () if is_narrow else tuple(filter(can_be_looked_into, list_figures(document)))
    figures = {figure.name: _drawn(figure) for figure in shown}
    width = _NARROW if is_narrow else _WIDE

    def place(figure: Figure) -> str:
        if figure.name in figures:
            return _place(figure)
        room = WIDE if not is_narrow and isinstance(figure.series[0], Parallel) else width
        return f'<div class="figure" id="figure-{escape(figure.name)}">{svg_of(figure, room)}</div>'

    return Rendered(title + render_body(document, place), figures, _headline(document))


def can_be_looked_into(figure: Figure) -> bool:
    """Whether there is more to be seen from closer by, or inside."""
    return any(
        len(series.x) > _LEAST_POINTS if isinstance(series, Curve) else isinstance(series, (Heatmap, Treemap))
        for series in figure.series
    )


def _drawn(figure: Figure) -> dict[str, Any]:
    """Plotly's data and layout, with letters as large as those of the figures that stay as they are."""
    drawn = plotly_dict(figure)
    layout = drawn["layout"]
    layout["font"] = layout.get("font", {}) | {"size": _LETTER_PIXELS}
    for name in [name for name in layout if name.startswith(("xaxis", "yaxis"))]:
        title = layout[name].get("title")
        if isinstance(title, dict):
            title["font"] = {"size": _LETTER_PIXELS}
    if figure.height < _LOW_PIXELS:
        layout["height"] = figure.height + _TITLE_PIXELS  # or the axis' title stands on its numbers
    return drawn


def _headline(document: Document) -> str:
    if not document.cards:
        return document.limits or document.title
    card = document.cards[0]
    return f"{card.label} {format_value(card.value, card.unit)}"


def _place(figure: Figure) -> str:
    """Where a figure is drawn, of its height, so that nothing moves when it is."""
    label = escape(figure.name.replace("-", " "))
    return (
        f'<div class="figure" id="figure-{escape(figure.name)}" style="min-height:{figure.height}px">'
        f'<div data-figure="{escape(figure.name)}" role="img" aria-label="chart: {label}"></div></div>'
    )


class DocumentElement(Element, component="assets/document.js"):
    """Shows one rendered document after another; parts that stay the same stay untouched."""

    def __init__(
        self, on_pick: Callable[[Mapping[str, str]], object] | None = None, *, heading: str = "Plan"
    ) -> None:
        """Args: ``on_pick`` is given the cells of a chosen row, by heading; its table has ``heading``."""
        super().__init__()
        self._props["html"] = ""
        self._props["figures"] = {}
        self._props["picks"] = heading if on_pick is not None else ""
        if on_pick is not None:
            self.on("pick", lambda event: on_pick(event.args))

    def show(self, rendered: Rendered) -> None:
        """Replace what is shown."""
        with self._props.suspend_updates():
            self._props["html"] = rendered.html
            self._props["figures"] = dict(rendered.figures)
        self.update()


def show_document(document: Document) -> DocumentElement:
    """A document where the caller stands."""
    element = DocumentElement()
    element.show(render_document(document))
    return element
