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
from perfcast.report.figure import Figure
from perfcast.report.page import render_body
from perfcast.report.plots import plotly_dict
from perfcast.report.values import format_value


@dataclass(frozen=True, slots=True)
class Rendered:
    """A document, ready to be sent.

    Attributes:
        html: With a place for each figure.
        figures: Plotly's data and layout by the figure's name.
        headline: The first of its figures, in a few words.
    """

    html: str
    headline: str
    figures: Mapping[str, Mapping[str, Any]]


def render_document(document: Document) -> Rendered:
    """The words, tables and figures of that document's report. Takes a moment: not for the event loop."""
    title = f'<h2 class="title">{escape(document.title)}</h2>'
    figures = {figure.name: plotly_dict(figure) for figure in list_figures(document)}
    return Rendered(title + render_body(document, _place), _headline(document), figures)


def _headline(document: Document) -> str:
    if not document.cards:
        return document.verdict
    card = document.cards[0]
    return f"{card.label} {format_value(card.value, card.unit)}"


def _place(figure: Figure) -> str:
    """Where a figure is drawn, of its height, so that nothing moves when it is."""
    label = escape(figure.name.replace("-", " "))
    return (
        f'<div class="figure" style="min-height:{figure.height}px"><div data-figure="{escape(figure.name)}" '
        f'role="img" aria-label="chart: {label}"></div></div>'
    )


class DocumentElement(Element, component="assets/document.js"):
    """Shows one rendered document after another; parts that stay the same stay untouched."""

    def __init__(self, on_pick: Callable[[Mapping[str, str]], None] | None = None) -> None:
        """Args: ``on_pick`` is given the cells of a plan's row, by heading, when that is chosen."""
        super().__init__()
        self._props["html"] = ""
        self._props["figures"] = {}
        self._props["picks"] = on_pick is not None
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
