"""What shows itself: at a prompt, in a notebook, as data, as a table, as a figure and as files."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfcast.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from plotly.graph_objects import Figure as PlotlyFigure

    from perfcast.report.answers import Answer
    from perfcast.report.document import Document
    from perfcast.report.figure import Figure


class Showing(ABC):
    """Something that a document and typed data describe."""

    @abstractmethod
    def document(self) -> Document:
        """As text and page say it."""

    @abstractmethod
    def data(self) -> Answer:
        """As JSON holds it."""

    def whole(self) -> Answer:
        """``data``, with what it came from."""
        return self.data()

    @property
    def command(self) -> str:
        """The command line that gives the same; '' where none does."""
        return ""

    def __repr__(self) -> str:
        """The headline, in one to six lines."""
        from perfcast.report.brief import brief_of

        return brief_of(self.document())

    def _repr_html_(self) -> str:
        """Cards and the first tables, as notebooks show them; light and dark, without any script."""
        from perfcast.report.inline import render_inline

        return render_inline(self.document())

    def to_dict(self) -> dict[str, Any]:
        """Everything, in the types that JSON has: what ``--json`` writes. SI units throughout."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_json(self, path: str | Path | None = None) -> str:
        """The JSON that ``--json`` writes, also into a file where one is named.

        Raises:
            InputError: The file cannot be written.
        """
        from perfcast.report.answers import to_plain, write_plain

        text = write_plain(to_plain(self.whole()))
        if path is not None:
            self._write(path, text)
        return text

    def _write(self, path: str | Path, text: str) -> None:
        """Raises InputError where the file cannot be written, or is one that the answer was made from."""
        from perfcast.files.places import check_places

        check_places([("to a file,", str(path))], self._inputs)
        _write(path, text)

    @property
    def _inputs(self) -> tuple[str, ...]:
        """Texts that name, or may name, files that were read."""
        return ()

    def to_dataframe(self) -> pl.DataFrame:
        """The table that is asked for most, in SI units that its columns name.

        Operations of a step, ranks of a plan, terms of a plan's memory, blocks that are alive at the peak of
        a captured step, ranked plans or deployments of a search, points of curves and sweeps, latencies and
        rates of a deployment, sizes of a collective, tables of a placement, kernels of a recording, kinds of
        work of a replay.
        """
        from perfcast.report.frames import frame_of

        return frame_of(self.data())

    def plot(self, name: str | None = None) -> PlotlyFigure:
        """A figure of the page as plotly's, by default the first.

        Args:
            name: As ``figures`` lists them.

        Raises:
            UnknownNameError: No such figure; lists close ones.
            InputError: The answer has none.
        """
        from perfcast.report.plots import draw

        return draw(self._figure(name))

    def picture(self, name: str | None = None) -> Picture:
        """The same as a drawing that needs no script: notebooks show it wherever they are read.

        Raises:
            UnknownNameError, InputError: As of ``plot``.
        """
        return Picture(self._figure(name))

    def _figure(self, name: str | None) -> Figure:
        from perfcast.report.document import list_figures

        found = {figure.name: figure for figure in list_figures(self.document())}
        if not found:
            raise InputError("this answer has no figures; to_dataframe() has its numbers")
        if name is not None and name not in found:
            raise UnknownNameError("figure", name, found, f"Known: {', '.join(found)}.")
        return found[name or next(iter(found))]

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that ``plot`` draws."""
        from perfcast.report.document import list_figures

        return tuple(figure.name for figure in list_figures(self.document()))

    def to_html(self, path: str | Path) -> None:
        """The page that ``--html`` writes: one file that needs nothing else.

        Raises:
            InputError: The file cannot be written.
        """
        from perfcast.report.page import render_page
        from perfcast.verbs.origin import origin_line

        shown = self.document()
        provenance = replace(shown.provenance, command=self.command, origin=origin_line())
        self._write(path, render_page(replace(shown, provenance=provenance)))


class Picture:
    """A figure as notebooks show it: drawn, light and dark, without any script."""

    def __init__(self, figure: Figure) -> None:
        self._figure = figure

    def __repr__(self) -> str:
        return f"Picture({self._figure.name!r})"

    def _repr_html_(self) -> str:
        from perfcast.report.inline import render_figure_inline

        return render_figure_inline(self._figure)

    def to_svg(self, path: str | Path | None = None) -> str:
        """The drawing as SVG, also into a file where one is named.

        Raises:
            InputError: The file cannot be written.
        """
        from perfcast.report.pictures import join_figures

        text = join_figures("", [("", self._figure)])
        if path is not None:
            _write(path, text)
        return text


def _write(path: str | Path, text: str) -> None:
    from perfcast.files.writing import write_text_atomically

    write_text_atomically(path, text)
